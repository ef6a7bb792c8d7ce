// Traces as files and as tables, from events made by hand: a GPU is not needed.
#include "tessera/observe/trace_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/json.h"
#include "tessera/observe/trace_tables.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

TraceEvent range(const char* name, std::int64_t number, std::int64_t parent, double start,
                 double duration) {
  TraceEvent event;
  event.name = name;
  event.number = number;
  event.parent = parent;
  event.start = start;
  event.duration = duration;
  return event;
}

TraceEvent work(TraceKind kind, const char* name, std::int64_t parent, double start,
                double duration) {
  TraceEvent event = range(name, -1, parent, start, duration);
  event.kind = kind;
  event.stream = 13;
  event.correlation = 99;
  return event;
}

// Two steps; the host is ahead of the GPU.
std::vector<TraceEvent> gpu_trace() {
  std::vector<TraceEvent> events{range("step", 1, -1, 0, 100),       //
                                 range("forward", 0, 0, 10, 40),     //
                                 range("optimizer", -1, 0, 60, 30),  //
                                 range("step", 2, -1, 100, 100),     //
                                 range("forward", 0, 3, 110, 40),
                                 work(TraceKind::copy, "Memcpy HtoD", 0, 5.0004, 500),
                                 work(TraceKind::kernel, "gemm", 1, 1000, 2000),
                                 work(TraceKind::kernel, "gemm", 4, 4000, 4000),
                                 work(TraceKind::kernel, "adamw", 2, 3000, 1000),
                                 work(TraceKind::set, "Memset", -1, 9000, 500)};
  events[5].bytes = 1000000;
  events[6].grid = {3, 2, 1};
  events[6].block = {128, 1, 1};
  return events;
}

Json parsed(const std::vector<TraceEvent>& events, int rank) {
  return parse_json(trace_json(events, rank), "the trace");
}

std::vector<Json> complete_events(const Json& trace) {
  std::vector<Json> events;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X") events.push_back(event);
  return events;
}

TEST(TraceJson, HasEveryEventWithItsTimes) {
  const std::vector<Json> events = complete_events(parsed(gpu_trace(), 3));
  ASSERT_EQ(events.size(), 10U);
  EXPECT_EQ(events[1]["name"], "forward 0");
  EXPECT_EQ(events[1]["cat"], "user_annotation");
  EXPECT_EQ(events[1]["ts"], 10.0);
  EXPECT_EQ(events[1]["dur"], 40.0);
  EXPECT_EQ(events[5]["ts"], 5.0) << "nanoseconds";
  for (const Json& event : events) EXPECT_EQ(event["pid"], 3);
}

TEST(TraceJson, SaysWhereAKernelBelongs) {
  const std::vector<Json> events = complete_events(parsed(gpu_trace(), 0));
  EXPECT_EQ(events[6]["cat"], "kernel");
  EXPECT_EQ(events[6]["args"]["range"], "step 1 / forward 0");
  EXPECT_EQ(events[6]["args"]["External id"], 1);
  EXPECT_EQ(events[1]["args"]["External id"], 1);
  EXPECT_EQ(events[6]["args"]["grid"], Json({3, 2, 1}));
  EXPECT_EQ(events[6]["args"]["block"], Json({128, 1, 1}));
  EXPECT_EQ(events[6]["args"]["stream"], 13);
  EXPECT_EQ(events[6]["args"]["correlation"], 99);
  EXPECT_EQ(events[9]["args"]["range"], "");
  EXPECT_EQ(events[5]["cat"], "gpu_memcpy");
  EXPECT_EQ(events[5]["args"]["bytes"], 1000000);
  EXPECT_EQ(events[5]["args"]["memory bandwidth (GB/s)"], 2.0);
  EXPECT_EQ(events[9]["cat"], "gpu_memset");
}

TEST(TraceJson, NamesItsLanes) {
  std::map<std::int64_t, std::string> lanes;
  std::string process;
  const Json trace = parsed(gpu_trace(), 2);
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") lanes[event["tid"]] = event["args"]["name"];
    if (event["name"] == "process_name") process = event["args"]["name"];
  }
  EXPECT_EQ(process, "rank 2");
  std::map<std::string, std::string> lane_of;
  for (const Json& event : complete_events(trace)) lane_of[event["name"]] = lanes[event["tid"]];
  EXPECT_EQ(lane_of["forward 0"], "host");
  EXPECT_EQ(lane_of["gemm"], "GPU 0 stream 13");
  EXPECT_EQ(lane_of["Memcpy HtoD"], "GPU 0 stream 13: copies");
  EXPECT_EQ(lane_of["Memset"], "GPU 0 stream 13: copies");
}

TEST(TraceJson, OfNothingIsATraceToo) {
  EXPECT_TRUE(complete_events(parsed({}, 0)).empty());
  EXPECT_EQ(kernel_table({}, 0), "");
}

TEST(TraceTables, AddUpKernelsPerStep) {
  EXPECT_EQ(kernel_table(gpu_trace(), 2),
            "   ms/step    share calls/step    mean us  kernel\n"
            "     3.000   75.0 %        1.0     3000.0  gemm\n"
            "     0.500   12.5 %        0.5     1000.0  adamw\n"
            "     0.250    6.2 %        0.5      500.0  Memcpy HtoD\n"
            "     0.250    6.2 %        0.5      500.0  Memset\n"
            "     4.000  100.0 %        2.5     1600.0  all\n");
  EXPECT_EQ(kernel_table(gpu_trace(), 2, 1),
            "   ms/step    share calls/step    mean us  kernel\n"
            "     3.000   75.0 %        1.0     3000.0  gemm\n"
            "     1.000   25.0 %        1.5      666.7  3 others\n"
            "     4.000  100.0 %        2.5     1600.0  all\n");
}

TEST(TraceTables, GiveTheTimeOfKernelsToTheirRanges) {
  EXPECT_EQ(range_table(gpu_trace(), 2),
            "   ms/step    share     own ms times/step  range\n"
            "     0.250    6.2 %      0.250        0.0  outside of all ranges\n"
            "     3.750   93.8 %      0.250        1.0  step\n"
            "     3.000   75.0 %      3.000        1.0    forward\n"
            "     0.500   12.5 %      0.500        0.5    optimizer\n");
}

TEST(TraceTables, TakeTheRangesOwnTimeOnACpu) {
  std::vector<TraceEvent> events = gpu_trace();
  events.resize(5);
  EXPECT_EQ(kernel_table(events, 2), "");
  EXPECT_EQ(range_table(events, 2),
            "   ms/step    share     own ms times/step  range\n"
            "     0.100  100.0 %      0.045        1.0  step\n"
            "     0.040   40.0 %      0.040        1.0    forward\n"
            "     0.015   15.0 %      0.015        0.5    optimizer\n");
}

TEST(TraceFile, IsReplacedOnlyByAnotherTrace) {
  const test::TempFolder temp;
  const fs::path file = temp / "new/profile.json";
  check_trace_place(file);
  EXPECT_FALSE(fs::exists(temp / "new")) << "checking makes nothing";
  write_trace(file, gpu_trace(), 0);
  EXPECT_EQ(read_text_file(file), trace_json(gpu_trace(), 0));
  check_trace_place(file);
  for (const char* text : {"", "{}", "num-layers: 4\n"}) {
    std::ofstream(temp / "other") << text;
    test::expect_input_error([&] { check_trace_place(temp / "other"); },
                             {"something else than a trace", "choose another"});
  }
  test::expect_input_error([&] { check_trace_place(temp.path()); }, {"something else"});
  EXPECT_THROW(check_trace_place(temp / "other/profile.json"), InputError);
}

}  // namespace
}  // namespace tessera
