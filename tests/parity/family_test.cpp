// Every form of a block computes what one rank does in every layout, in f64 where rounding cannot
// hide a fault.
#include <gtest/gtest.h>

#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

struct FamilyLayout {
  std::string name;
  void (*set)(SessionOptions& options);
};

SessionOptions family_session(const std::string& family) {
  SessionOptions options = test::tiny_session(family);
  options.model.dtype = DType::f64;
  options.shape = {16, 4};
  options.microbatches = 4;
  // As in layout_test.cpp.
  options.optimizer.adam_eps = 1e-3;
  return options;
}

const std::vector<FamilyLayout>& family_layouts() {
  static const std::vector<FamilyLayout> layouts{
      {"tensor2", [](SessionOptions& o) { o.parallel.tensor = 2; }},
      // Two ranks hold each key head, if there are two of them.
      {"tensor4", [](SessionOptions& o) { o.parallel.tensor = 4; }},
      {"tensor4_sequence",
       [](SessionOptions& o) {
         o.parallel.tensor = 4;
         o.parallel.sequence_parallel = true;
       }},
      {"tensor2x2",
       [](SessionOptions& o) {
         o.parallel.tensor = 4;
         o.parallel.tensor_2d = 2;
       }},
      {"pipeline2", [](SessionOptions& o) { o.parallel.pipeline = 2; }},
      {"pipeline4_split_tensor2",
       [](SessionOptions& o) {
         o.parallel.pipeline = 4;
         o.pipeline.schedule = ScheduleKind::zb_h1;
         o.parallel.tensor = 2;
         o.parallel.sequence_parallel = true;
       }},
      {"interleaved",
       [](SessionOptions& o) {
         o.parallel.pipeline = 2;
         o.pipeline.virtual_stages = 2;
         o.pipeline.schedule = ScheduleKind::interleaved;
       }},
      {"split_recompute_core",
       [](SessionOptions& o) {
         o.parallel.pipeline = 2;
         o.pipeline.schedule = ScheduleKind::zb_h1;
         o.recompute.granularity = RecomputeGranularity::selective;
       }},
      {"zero3",
       [](SessionOptions& o) {
         o.parallel.data = 2;
         o.microbatches = 2;
         o.parallel.sharding = Sharding::parameters;
       }},
      {"zero2_split",
       [](SessionOptions& o) {
         o.parallel.data = 2;
         o.parallel.pipeline = 2;
         o.microbatches = 2;
         o.pipeline.schedule = ScheduleKind::zb_h1;
         o.parallel.sharding = Sharding::gradients;
       }},
      {"context2", [](SessionOptions& o) { o.parallel.context = 2; }},
      {"tensor2_recompute_shares",
       [](SessionOptions& o) {
         o.parallel.tensor = 2;
         o.recompute = {RecomputeGranularity::full, RecomputeMethod::uniform, 3, true};
       }},
  };
  return layouts;
}

class FamilyLayouts : public testing::TestWithParam<std::string> {};

TEST_P(FamilyLayouts, EqualOneRank) {
  const test::LayoutResult one = test::run_layout(family_session(GetParam()), 2);
  for (const FamilyLayout& layout : family_layouts()) {
    SCOPED_TRACE(layout.name);
    SessionOptions options = family_session(GetParam());
    layout.set(options);
    if (options.parallel.tensor_2d > 0 && options.model.mtp_num_layers > 0) continue;  // refused
    test::expect_same_layouts(test::run_layout(options, 2), one, {1e-11, 1e-11, 1e-11});
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyLayouts,
                         testing::Values("gemma", "neox", "olmo2", "cohere", "granite", "mtp",
                                         "sinks", "chunks"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera
