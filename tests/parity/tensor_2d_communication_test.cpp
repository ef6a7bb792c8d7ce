// What 2-D tensor parallelism on q x q ranks communicates, counted, against the formulas. A linear
// layer moves per rank, with b s rows of all samples,
//
//   forward              (q-1)/q^2 (b s in + in out) elements
//   forward + backward   three times that
//
// as broadcasts and reduce-scatters. A broadcast is counted as what each rank sends on average when
// it passes around a ring: (q-1)/q of its bytes. Reduce-scatters of q partial sums count like q
// sums to one rank each, (q-1)/q of their bytes.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/step_counts.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

// Bytes that one rank sends, by kind of call.
using Traffic = std::map<std::string, double>;

Traffic ring_traffic(const CommCounts& counts, int q) {
  const double share = static_cast<double>(q - 1) / q;
  Traffic traffic;
  for (const auto& [call, count] : counts)
    traffic[call] = (call == "all_reduce" ? 2 : 1) * share * static_cast<double>(count.bytes);
  return traffic;
}

Traffic minus(Traffic a, const Traffic& b) {
  for (const auto& [call, bytes] : b) a[call] -= bytes;
  return a;
}

// Of one microbatch on rank 0.
struct StepTraffic {
  Traffic forward;
  Traffic both;  ///< forward and backward
};

StepTraffic traffic_2d(const SessionOptions& options, std::int64_t layers) {
  const test::StepCounts counts = test::step_counts(options, layers);
  return {ring_traffic(counts.forward, options.parallel.tensor_2d),
          ring_traffic(counts.both, options.parallel.tensor_2d)};
}

StepTraffic layer_traffic_2d(const SessionOptions& options) {
  const StepTraffic two = traffic_2d(options, 2);
  const StepTraffic three = traffic_2d(options, 3);
  return {minus(three.forward, two.forward), minus(three.both, two.both)};
}

class Tensor2dTraffic : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  Tensor2dTraffic() {
    options_.shape = {8, 6};
    options_.model.hidden_size = 48;
    options_.model.ffn_hidden_size = 60;
    options_.model.num_attention_heads = options_.model.num_query_groups = 6;
    options_.model.vocab_size = 54;
    options_.parallel.tensor_2d = q_;
    options_.parallel.tensor = q_ * q_;
  }

  // Bytes that a linear layer moves in forward.
  double linear(std::int64_t in, std::int64_t out) const {
    const double rows = static_cast<double>(options_.shape.rows());
    return (q_ - 1.0) / (q_ * q_) * static_cast<double>(in) * (rows + static_cast<double>(out)) *
           sizeof(float);
  }

  int q_ = std::get<1>(GetParam());
  SessionOptions options_ = test::tiny_session(std::get<0>(GetParam()));
};

TEST_P(Tensor2dTraffic, OfALayersProducts) {
  const ModelOptions& m = options_.model;
  const std::int64_t heads = m.num_attention_heads * m.kv_channels;
  const int gates = m.gated_mlp ? 2 : 1;
  const double linears = linear(m.hidden_size, 3 * heads) + linear(heads, m.hidden_size) +
                         linear(m.hidden_size, gates * m.ffn_hidden_size) +
                         linear(m.ffn_hidden_size, m.hidden_size);
  StepTraffic layer = layer_traffic_2d(options_);
  EXPECT_DOUBLE_EQ(layer.forward["broadcast"], linears);
  EXPECT_DOUBLE_EQ(layer.forward["reduce_scatter"], 0);
  EXPECT_DOUBLE_EQ(layer.both["broadcast"] + layer.both["reduce_scatter"], 3 * linears);
}

// Two numbers a row for each norm and direction; once per step the gradients of vectors.
TEST_P(Tensor2dTraffic, OfALayersNormsAndVectors) {
  const ModelOptions& m = options_.model;
  const double rows = static_cast<double>(options_.shape.rows()) / q_;
  const double share = static_cast<double>(q_ - 1) / q_;
  StepTraffic layer = layer_traffic_2d(options_);
  const double gathered = 2 * share * q_ * 2 * rows * sizeof(float);
  EXPECT_DOUBLE_EQ(layer.forward["all_gather"], gathered);
  EXPECT_DOUBLE_EQ(layer.forward["all_reduce"], 0);
  EXPECT_DOUBLE_EQ(layer.both["all_gather"], gathered);

  const std::int64_t heads = m.num_attention_heads * m.kv_channels;
  std::vector<std::int64_t> vectors{m.hidden_size, m.hidden_size};  // norm weights
  if (m.normalization == Normalization::layer_norm)
    vectors.insert(vectors.end(), {m.hidden_size, m.hidden_size, 3 * heads, m.hidden_size,
                                   m.ffn_hidden_size, m.hidden_size});
  double elements = 2 * 2 * rows;  // sums of the norms
  for (const std::int64_t each : vectors) {
    constexpr std::int64_t kAligned = 64;  // elements that a parameter takes at least
    const std::int64_t room = (each / q_ + kAligned - 1) / kAligned * kAligned;
    elements += static_cast<double>(room);
  }
  EXPECT_DOUBLE_EQ(layer.both["all_reduce"], 2 * share * elements * sizeof(float));
}

// The output layer's panels serve its logits and its gradients: twice the forward, not three times.
TEST_P(Tensor2dTraffic, OfTheOutputLayer) {
  const ModelOptions& m = options_.model;
  const double rows = static_cast<double>(options_.shape.rows()) / q_;
  const double share = static_cast<double>(q_ - 1) / q_;
  const StepTraffic layer = layer_traffic_2d(options_);
  const StepTraffic two = traffic_2d(options_, 2);
  StepTraffic rest{minus(minus(two.forward, layer.forward), layer.forward),
                   minus(minus(two.both, layer.both), layer.both)};
  const double head = linear(m.hidden_size, m.vocab_size);
  const double norm = share * q_ * 2 * rows * sizeof(float);
  const double tokens = share * q_ * rows * sizeof(std::int32_t);
  EXPECT_NEAR(rest.forward["all_gather"], head + norm + tokens, 1e-6);
  // The embedding reduces rows of all samples in forward, and gathers their gradients in backward.
  const std::int64_t channels = m.hidden_size / q_;
  const double stream = share * q_ * rows * static_cast<double>(channels) * sizeof(float);
  EXPECT_NEAR(rest.forward["reduce_scatter"], stream, 1e-6);
  EXPECT_NEAR(rest.both["all_gather"], head + norm + 2 * tokens + stream, 1e-6);
  EXPECT_NEAR(rest.both["reduce_scatter"], head + stream, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Sides, Tensor2dTraffic,
                         testing::Combine(testing::Values("gpt", "llama"), testing::Values(2, 3)));

}  // namespace
}  // namespace tessera
