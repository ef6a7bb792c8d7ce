// Multi-token prediction computes what one rank does in every layout, in f64. Its losses are among
// the extra losses that are compared.
#include <gtest/gtest.h>

#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using Change = void (*)(SessionOptions& options);

struct MtpLayout {
  const char* name;
  Change set;
};

SessionOptions mtp_session(const std::string& family) {
  SessionOptions options = test::tiny_session(family);
  options.model.dtype = DType::f64;
  options.shape = {16, 4};
  options.microbatches = 4;
  options.optimizer.adam_eps = 1e-3;  // as in layout_test.cpp
  return options;
}

SessionOptions with(SessionOptions options, Change change) {
  change(options);
  return options;
}

void shard(SessionOptions& o, Sharding sharding) {
  o.parallel.data = 2;
  o.microbatches = 2;
  o.parallel.sharding = sharding;
  o.parallel.bucket_elements = 2'000;
}

void pipeline(SessionOptions& o, ScheduleKind schedule, int chunks = 1) {
  o.parallel.pipeline = 2;
  o.pipeline.schedule = schedule;
  o.pipeline.chunks = chunks;
}

void recompute_all(SessionOptions& o) {
  o.recompute = {RecomputeGranularity::full, RecomputeMethod::uniform, 3};
}

const MtpLayout kMtpLayouts[] = {
    {"tensor4_sequence",
     [](SessionOptions& o) {
       o.parallel.tensor = 4;
       o.parallel.sequence_parallel = true;
     }},
    {"context2", [](SessionOptions& o) { o.parallel.context = 2; }},
    {"context2_gathered",
     [](SessionOptions& o) {
       o.parallel.context = 2;
       o.parallel.cp_comm_types = {CpCommType::all_gather};
     }},
    {"gpipe", [](SessionOptions& o) { pipeline(o, ScheduleKind::gpipe); }},
    {"one_f_one_b", [](SessionOptions& o) { pipeline(o, ScheduleKind::one_f_one_b); }},
    {"interleaved", [](SessionOptions& o) { pipeline(o, ScheduleKind::interleaved, 2); }},
    {"zb_h1", [](SessionOptions& o) { pipeline(o, ScheduleKind::zb_h1); }},
    // The first and the last stage are on the same rank.
    {"zb_v", [](SessionOptions& o) { pipeline(o, ScheduleKind::zb_v, 2); }},
    {"search", [](SessionOptions& o) { pipeline(o, ScheduleKind::search); }},
    {"last_stage_without_layers",
     [](SessionOptions& o) {
       pipeline(o, ScheduleKind::one_f_one_b);
       o.pipeline.layout = "Etttt|L";
     }},
    {"pipeline2_tensor2_context2",
     [](SessionOptions& o) {
       pipeline(o, ScheduleKind::one_f_one_b);
       o.parallel.tensor = o.parallel.context = 2;
       o.parallel.sequence_parallel = true;
     }},
    {"zero1_overlap",
     [](SessionOptions& o) {
       shard(o, Sharding::optimizer);
       o.parallel.overlap_grad_reduce = o.parallel.overlap_param_gather = true;
     }},
    {"zero2", [](SessionOptions& o) { shard(o, Sharding::gradients); }},
    {"zero3", [](SessionOptions& o) { shard(o, Sharding::parameters); }},
    {"zero3_zb_v",
     [](SessionOptions& o) {
       shard(o, Sharding::parameters);
       pipeline(o, ScheduleKind::zb_v, 2);
     }},
    {"zero3_pipeline_recompute",
     [](SessionOptions& o) {
       shard(o, Sharding::parameters);
       pipeline(o, ScheduleKind::one_f_one_b);
       recompute_all(o);
     }},
    {"recompute", recompute_all},
    {"recompute_core",
     [](SessionOptions& o) { o.recompute.granularity = RecomputeGranularity::selective; }},
};

class MtpLayouts : public testing::TestWithParam<std::tuple<std::string, bool>> {};

// Needs sequence parallelism.
bool splits_experts_rows(const SessionOptions& o) {
  return o.model.num_experts > 0 && o.parallel.tensor > 1 && !o.parallel.sequence_parallel;
}

TEST_P(MtpLayouts, EqualOneRank) {
  SessionOptions options = mtp_session(std::get<0>(GetParam()));
  options.model.tie_embeddings = std::get<1>(GetParam());
  const test::LayoutResult one = test::run_layout(options, 2);
  for (const MtpLayout& layout : kMtpLayouts) {
    SCOPED_TRACE(layout.name);
    const SessionOptions here = with(options, layout.set);
    if (splits_experts_rows(here)) continue;
    test::expect_same_layouts(test::run_layout(here, 2), one, {1e-11, 1e-11, 1e-11});
  }
}

INSTANTIATE_TEST_SUITE_P(Families, MtpLayouts,
                         testing::Combine(testing::Values("mtp", "mtp_moe"), testing::Bool()),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) ? "_tied" : "_untied");
                         });

TEST(MtpParity, OfDocuments) {
  SessionOptions options = mtp_session("mtp");
  options.documents = true;
  const test::LayoutResult one = test::run_layout(options, 2);
  for (const Change change : {Change([](SessionOptions& o) { o.parallel.context = 2; }),
                              Change([](SessionOptions& o) { o.parallel.pipeline = 2; })})
    test::expect_same_layouts(test::run_layout(with(options, change), 2), one, {});
}

// Ranks and microbatches have different numbers of labels, and depths fewer than the main loss.
TEST(MtpParity, OfMeansOverTokens) {
  const SessionOptions options = mtp_session("mtp");
  test::RunSettings settings;
  settings.average = LossAverage::per_token;
  settings.change_batch = [](HostBatch& batch) {
    for (std::size_t i = 0; i < batch.loss_mask.size(); ++i)
      if (static_cast<std::int64_t>(i) < 5 * (batch.sample_numbers[0] / 4)) batch.loss_mask[i] = 0;
  };
  const test::LayoutResult one = test::run_layout(options, 2, settings);
  const test::LayoutResult two = test::run_layout(
      with(options, [](SessionOptions& o) { shard(o, Sharding::none); }), 2, settings);
  test::expect_same_layouts(two, one, {});
}

// What is frozen keeps its value, and the gradients of all others are as before.
TEST(MtpParity, OfFrozenParameters) {
  SessionOptions options = mtp_session("mtp");
  const test::LayoutResult all = test::run_layout(options, 1);
  for (const char* frozen : {"mtp.*", "embedding.*", "output.*"}) {
    options.optimizer.frozen = {frozen};
    const test::LayoutResult one = test::run_layout(options, 2);
    for (const auto& [name, gradient] : one.first_gradients)
      EXPECT_EQ(gradient.values, all.first_gradients.at(name).values) << name;
    EXPECT_LT(one.first_gradients.size(), all.first_gradients.size());
    test::expect_same_layouts(
        test::run_layout(with(options, [](SessionOptions& o) { o.parallel.pipeline = 2; }), 2), one,
        {});
  }
}

double evaluated_loss(const SessionOptions& options) {
  Session session(options, {0, 1, 1, make_self_communicator()});
  const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
  return evaluate_step(
             session, [&]() -> const HostBatch& { return batch; }, LossAverage::per_token)
      .loss;
}

// The main loss does not depend on it, in training and in evaluation.
TEST(MtpParity, MainLossIsThatOfTheModelWithoutIt) {
  SessionOptions options = mtp_session("mtp");
  options.model.hidden_dropout = options.model.attention_dropout = 0;
  const test::LayoutResult with_mtp = test::run_layout(options, 1);
  ASSERT_EQ(with_mtp.extra_losses.size(), 2U);
  EXPECT_NE(with_mtp.extra_losses[0], with_mtp.extra_losses[1]);
  const double evaluated = evaluated_loss(options);
  options.model.mtp_num_layers = 0;
  EXPECT_EQ(test::run_layout(options, 1).losses, with_mtp.losses);
  EXPECT_EQ(evaluated_loss(options), evaluated);
}

}  // namespace
}  // namespace tessera
