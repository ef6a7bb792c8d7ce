// Any layout computes the same thing: in float64, against one rank.
#include <gtest/gtest.h>

#include "tests/support/layout_run.h"

namespace tessera {
namespace {

using test::LayoutResult;

ModelOptions tiny_model() {
  ModelOptions model;
  model.num_layers = 4;
  model.hidden_size = 32;
  model.ffn_hidden_size = 64;
  model.num_attention_heads = 4;
  model.num_query_groups = 2;
  model.kv_channels = 8;
  model.vocab_size = 51;  // odd, so that ranks hold unequal parts
  model.max_position_embeddings = 16;
  model.tie_embeddings = false;
  model.attention_dropout = 0.1;
  model.hidden_dropout = 0.1;
  model.init_std = 0.2;
  model.dtype = DType::f64;
  return model;
}

SessionOptions tiny_session(int tensor, int pipeline) {
  SessionOptions options;
  options.model = tiny_model();
  options.parallel.tensor = tensor;
  options.parallel.pipeline = pipeline;
  options.shape = {12, 3};
  options.microbatches = 4;
  // The key bias of a model without RoPE has no gradient in mathematics; a larger epsilon keeps
  // Adam from blowing its rounding noise up.
  options.optimizer.adam_eps = 1e-3;
  return options;
}

void expect_same(const LayoutResult& got, const LayoutResult& want, double tolerance) {
  test::expect_same_layouts(got, want, {tolerance, tolerance, tolerance});
}

class Layouts : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Layouts, EqualOneRankWithDropout) {
  const auto [tensor, pipeline] = GetParam();
  const LayoutResult one = test::run_layout(tiny_session(1, 1), 3);
  const LayoutResult many = test::run_layout(tiny_session(tensor, pipeline), 3);
  expect_same(many, one, 1e-11);
}

TEST_P(Layouts, EqualOneRankWithRopeAndSwiglu) {
  const auto [tensor, pipeline] = GetParam();
  const auto llama = [](SessionOptions options) {
    ModelOptions& model = options.model;
    model.position_embedding = PositionEmbedding::rope;
    model.normalization = Normalization::rms_norm;
    model.activation = Activation::silu;
    model.gated_mlp = true;
    model.qkv_bias = model.attention_output_bias = model.mlp_bias = false;
    return options;
  };
  const LayoutResult one = test::run_layout(llama(tiny_session(1, 1)), 3);
  const LayoutResult many = test::run_layout(llama(tiny_session(tensor, pipeline)), 3);
  expect_same(many, one, 1e-11);
}

TEST_P(Layouts, EqualOneRankWithDocuments) {
  const auto [tensor, pipeline] = GetParam();
  SessionOptions options = tiny_session(1, 1);
  options.documents = true;
  const LayoutResult one = test::run_layout(options, 3);
  options.parallel.tensor = tensor;
  options.parallel.pipeline = pipeline;
  expect_same(test::run_layout(options, 3), one, 1e-11);
}

TEST_P(Layouts, SplitBackwardEqualsFused) {
  const auto [tensor, pipeline] = GetParam();
  SessionOptions options = tiny_session(tensor, pipeline);
  const LayoutResult fused = test::run_layout(options, 2);
  options.pipeline.schedule = ScheduleKind::zb_h1;
  const LayoutResult split = test::run_layout(options, 2);
  expect_same(split, fused, 1e-11);
}

TEST_P(Layouts, SplitBackwardWithSelectiveRecompute) {
  const auto [tensor, pipeline] = GetParam();
  SessionOptions options = tiny_session(tensor, pipeline);
  const LayoutResult fused = test::run_layout(options, 2);
  options.pipeline.schedule = ScheduleKind::zb_h1;
  options.recompute.granularity = RecomputeGranularity::selective;
  expect_same(test::run_layout(options, 2), fused, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(TensorPipeline, Layouts,
                         testing::Values(std::pair(1, 1), std::pair(2, 1), std::pair(1, 2),
                                         std::pair(2, 2)));

}  // namespace
}  // namespace tessera
