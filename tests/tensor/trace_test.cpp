// Ranges on the host, and the names that kernels are shown by.
#include "tessera/tensor/trace.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

void nested_ranges(Trace* trace) {
  const TraceRange outer(trace, "outer", 7);
  { const TraceRange first(trace, "first"); }
  const TraceRange second(trace, "second", 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

TEST(Trace, KeepsRangesWithTheOneAround) {
  Trace trace{Device{}};
  trace.start();
  nested_ranges(&trace);
  const std::vector<TraceEvent> events = trace.stop();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(range_title(events[0]), "outer 7");
  EXPECT_EQ(range_title(events[1]), "first");
  EXPECT_EQ(range_title(events[2]), "second 0");
  EXPECT_EQ(events[0].parent, -1);
  EXPECT_EQ(events[1].parent, 0);
  EXPECT_EQ(events[2].parent, 0);
  const auto end = [&](std::size_t i) { return events[i].start + events[i].duration; };
  EXPECT_GE(events[0].start, 0);
  EXPECT_GE(events[1].start, events[0].start);
  EXPECT_GE(events[2].start, end(1));
  EXPECT_GE(end(0), end(2));
  EXPECT_GE(events[2].duration, 2000) << "microseconds";
  EXPECT_LT(events[2].duration, 2e6);
}

TEST(Trace, KeepsNothingBeforeStartAndAfterStop) {
  Trace trace{Device{}};
  EXPECT_FALSE(trace.recording());
  nested_ranges(&trace);
  trace.start();
  EXPECT_TRUE(trace.recording());
  EXPECT_TRUE(trace.stop().empty());
  EXPECT_FALSE(trace.recording());
  nested_ranges(&trace);
  trace.start();
  EXPECT_TRUE(trace.stop().empty()) << "a second recording starts empty";
  nested_ranges(nullptr);
}

TEST(Trace, ARangeThatWasOpenBeforeTheStartIsNoPartOfIt) {
  Trace trace{Device{}};
  {
    const TraceRange before(&trace, "before");
    trace.start();
    const TraceRange inside(&trace, "inside");
  }
  const std::vector<TraceEvent> events = trace.stop();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].name, "inside");
}

TEST(Trace, RangesEndWithAnException) {
  Trace trace{Device{}};
  trace.start();
  EXPECT_THROW(
      {
        const TraceRange range(&trace, "fails");
        fail("on purpose");
      },
      Error);
  { const TraceRange next(&trace, "next"); }
  const std::vector<TraceEvent> events = trace.stop();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].parent, -1);
}

TEST(Trace, RefusesToStartTwiceAndToStopWhatIsOff) {
  Trace trace{Device{}};
  test::expect_error([&] { trace.stop(); }, {"does not record"});
  trace.start();
  test::expect_error([&] { trace.start(); }, {"records already"});
  const TraceRange open(&trace, "open");
  test::expect_error([&] { trace.stop(); }, {"inside its range 'open'"});
}

TEST(KernelTitle, IsWhatAReaderWants) {
  EXPECT_EQ(kernel_title("_ZN7tessera12_GLOBAL__N_13fooIfEEvPT_i"), "foo<float>");
  EXPECT_EQ(kernel_title("_ZN7tessera4copyEPfS0_"), "copy");
  EXPECT_EQ(kernel_title("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNN"),
            "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNN");
  EXPECT_EQ(kernel_title(""), "");
}

TEST(KernelTitle, CutsLongTemplateArguments) {
  const std::string inner(120, 'a');
  const std::string title = kernel_title(("_Z6kernelI120" + inner + "EvT_").c_str());
  EXPECT_EQ(title, "kernel<" + inner.substr(0, 90) + "...");
  EXPECT_EQ(title.size(), 100U);
}

}  // namespace
}  // namespace tessera
