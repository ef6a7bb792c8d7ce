#include "tessera/observe/trace_file.h"

#include <array>
#include <cmath>
#include <fstream>
#include <map>

#include "tessera/base/check.h"
#include "tessera/base/json.h"

namespace tessera {
namespace {

constexpr std::string_view kBegin = R"({"displayTimeUnit":"ms","traceEvents":[)";

const char* category_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::range: return "user_annotation";
    case TraceKind::kernel: return "kernel";
    case TraceKind::copy: return "gpu_memcpy";
    case TraceKind::set: return "gpu_memset";
  }
  return "";
}

// A row of the picture. What is in a row never overlaps but by nesting.
struct Lane {
  std::int64_t thread;
  std::string name;
};

Lane lane_of(const TraceEvent& event) {
  if (event.kind == TraceKind::range) return {0, "host"};
  const std::string stream = fmt::format("GPU {} stream {}", event.device, event.stream);
  const std::int64_t first = 10 * (event.stream + 1);
  if (event.kind == TraceKind::kernel) return {first, stream};
  return {first + 1, stream + ": copies"};
}

Json metadata(const char* what, int rank, std::int64_t thread, const Json& args) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", args}};
}

// "step 11 / forward 0 / block forward 3 / attention forward"
std::string path_of(const std::vector<TraceEvent>& events, std::int64_t range) {
  std::string path;
  for (; range >= 0; range = events[static_cast<std::size_t>(range)].parent) {
    const std::string title = range_title(events[static_cast<std::size_t>(range)]);
    path = path.empty() ? title : title + " / " + path;
  }
  return path;
}

Json args_of(const std::vector<TraceEvent>& events, std::size_t place) {
  const TraceEvent& event = events[place];
  if (event.kind == TraceKind::range) return {{"External id", place}};
  Json args{{"device", event.device},
            {"stream", event.stream},
            {"correlation", event.correlation},
            {"External id", event.parent},
            {"range", path_of(events, event.parent)}};
  if (event.kind == TraceKind::kernel) {
    args["grid"] = event.grid;
    args["block"] = event.block;
    args["registers per thread"] = event.registers;
    args["shared memory"] = event.shared_memory;
  } else {
    args["bytes"] = event.bytes;
    if (event.duration > 0)
      args["memory bandwidth (GB/s)"] = static_cast<double>(event.bytes) / event.duration / 1e3;
  }
  return args;
}

// Nanoseconds are as fine as clocks are.
double rounded(double microseconds) { return std::round(microseconds * 1e3) / 1e3; }

}  // namespace

std::string trace_json(const std::vector<TraceEvent>& events, int rank, std::int64_t start) {
  std::string text(kBegin);
  const auto add = [&](const Json& event) {
    text += text.size() == kBegin.size() ? "\n" : ",\n";
    text += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::map<std::int64_t, std::string> lanes;
  for (const TraceEvent& event : events) {
    const Lane lane = lane_of(event);
    lanes[lane.thread] = lane.name;
  }
  add(metadata("process_name", rank, 0, {{"name", fmt::format("rank {}", rank)}}));
  for (const auto& [thread, name] : lanes) {
    add(metadata("thread_name", rank, thread, {{"name", name}}));
    add(metadata("thread_sort_index", rank, thread, {{"sort_index", thread}}));
  }
  for (std::size_t i = 0; i < events.size(); ++i)
    add({{"ph", "X"},
         {"cat", category_of(events[i].kind)},
         {"name", range_title(events[i])},
         {"pid", rank},
         {"tid", lane_of(events[i]).thread},
         {"ts", rounded(events[i].start)},
         {"dur", rounded(events[i].duration)},
         {"args", args_of(events, i)}});
  return text + fmt::format("\n],\"baseTimeNanoseconds\":{}}}\n", start);
}

void check_trace_place(const fs::path& file) {
  check_folder_can_be(fs::absolute(file).parent_path());
  if (!fs::exists(file)) return;
  std::array<char, kBegin.size()> begin{};
  std::ifstream before(file);
  before.read(begin.data(), begin.size());
  check_input(fs::is_regular_file(file) && std::string_view(begin.data(), begin.size()) == kBegin,
              "the file '{}' holds something else than a trace of Tessera: choose another one",
              file.string());
}

void write_trace(const fs::path& file, const std::vector<TraceEvent>& events, int rank,
                 std::int64_t start) {
  make_folders(fs::absolute(file).parent_path());
  write_file_atomically(file, trace_json(events, rank, start));
}

}  // namespace tessera
