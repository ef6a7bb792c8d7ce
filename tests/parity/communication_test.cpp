// What a layer communicates, counted, against the formulas (docs/parallelism.md): per layer and
// rank, with S positions of B samples of H channels over t ranks,
//
//   tensor parallel                     forward 4 SBH (t-1)/t elements, backward the same
//   with sequence parallelism           forward 4, backward 6: two inputs are gathered again
#include <gtest/gtest.h>

#include "tests/support/step_counts.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

// Of one microbatch on rank 0.
struct RingTraffic {
  double forward = 0;
  double backward = 0;
};

RingTraffic ring_traffic_of(const SessionOptions& options, std::int64_t layers) {
  const test::StepCounts counts = test::step_counts(options, layers);
  for (const auto& [call, count] : counts.both)
    EXPECT_TRUE(call == "all_reduce" || call == "all_gather" || call == "reduce_scatter")
        << "unexpected " << call;
  const double forward = test::ring_bytes(counts.forward, options.parallel.tensor);
  return {forward, test::ring_bytes(counts.both, options.parallel.tensor) - forward};
}

RingTraffic layer_traffic(const SessionOptions& options) {
  const RingTraffic two = ring_traffic_of(options, 2);
  const RingTraffic three = ring_traffic_of(options, 3);
  return {three.forward - two.forward, three.backward - two.backward};
}

SessionOptions session_of(const std::string& family, int tensor, bool sequence_parallel) {
  SessionOptions options = test::tiny_session(family);
  options.shape = {16, 2};
  options.model.num_attention_heads = options.model.num_query_groups = 8;
  options.parallel.tensor = tensor;
  options.parallel.sequence_parallel = sequence_parallel;
  return options;
}

class LayerTraffic : public testing::TestWithParam<int> {};

TEST_P(LayerTraffic, TensorParallel) {
  const int t = GetParam();
  for (const char* family : {"gpt", "llama"}) {
    const SessionOptions options = session_of(family, t, false);
    const double bsh = static_cast<double>(options.shape.rows() * options.model.hidden_size);
    const double unit = bsh * (t - 1) / t * sizeof(float);
    const RingTraffic got = layer_traffic(options);
    EXPECT_DOUBLE_EQ(got.forward, 4 * unit);
    EXPECT_DOUBLE_EQ(got.backward, 4 * unit);
  }
}

// The norms' gradients are summed once per step, not per microbatch and layer's activations.
TEST_P(LayerTraffic, SequenceParallel) {
  const int t = GetParam();
  for (const char* family : {"gpt", "llama"}) {
    const SessionOptions options = session_of(family, t, true);
    const ModelOptions& model = options.model;
    const double bsh = static_cast<double>(options.shape.rows() * model.hidden_size);
    const double unit = bsh * (t - 1) / t * sizeof(float);
    const int vectors = model.normalization == Normalization::layer_norm ? 4 : 2;
    constexpr std::int64_t kAligned = 64;  // elements that a parameter takes at least
    const std::int64_t room = (model.hidden_size + kAligned - 1) / kAligned * kAligned;
    const double norms = 2.0 * (t - 1) / t * sizeof(float) * static_cast<double>(vectors * room);
    const RingTraffic got = layer_traffic(options);
    EXPECT_DOUBLE_EQ(got.forward, 4 * unit);
    EXPECT_DOUBLE_EQ(got.backward, 6 * unit + norms);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LayerTraffic, testing::Values(2, 4, 8));

}  // namespace
}  // namespace tessera
