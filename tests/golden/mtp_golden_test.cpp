// The losses and gradients of multi-token prediction as plain PyTorch computes them in float64
// (make_mtp_golden.py).
#include <gtest/gtest.h>

#include "tessera/checkpoint/format/safetensors_reader.h"
#include "tessera/engine/train_step.h"
#include "tests/support/global_tensors.h"

namespace tessera {
namespace {

class MtpGolden : public testing::Test {
 protected:
  static ModelOptions model() {
    ModelOptions model;
    model.num_layers = 2;
    model.hidden_size = 16;
    model.ffn_hidden_size = 24;
    model.num_attention_heads = 4;
    model.num_query_groups = 2;
    model.kv_channels = 6;
    model.vocab_size = 29;
    model.max_position_embeddings = 9;
    model.position_embedding = PositionEmbedding::rope;
    model.normalization = Normalization::rms_norm;
    model.activation = Activation::silu;
    model.gated_mlp = true;
    model.qkv_bias = model.attention_output_bias = model.mlp_bias = false;
    model.tie_embeddings = false;
    model.attention_dropout = model.hidden_dropout = 0;
    model.mtp_num_layers = 2;
    model.mtp_loss_scaling_factor = 0.7;
    model.dtype = DType::f64;
    return model;
  }

  std::vector<double> values(const std::string& name) const {
    std::vector<double> all(static_cast<std::size_t>(file_.shape(name).numel()));
    file_.read(name, View(all.data(), DType::f64, file_.shape(name)));
    return all;
  }

  void set_weights(Session& session) const {
    for (const Parameter* parameter : session.parameters().parameters())
      for (const ShardedTensor& tensor : parameter->tensors())
        for (const ShardPiece& piece : tensor.pieces)
          file_.read("weights." + tensor.name, piece.in(parameter->value()));
    session.adopt_values();
  }

  HostBatch batch(std::int64_t microbatch) const {
    std::vector<std::int32_t> samples(static_cast<std::size_t>(file_.shape("samples").numel()));
    file_.read("samples", View(samples.data(), DType::i32, file_.shape("samples")));
    const std::vector<double> mask = values("mask");
    const Shape shape = file_.shape("mask");  // [microbatches, B, S]
    HostBatch batch{shape[1], shape[2], {}, {}, {}, {}, {}};
    for (std::int64_t b = 0; b < shape[1]; ++b) {
      const std::int64_t row = microbatch * shape[1] + b;
      for (std::int64_t s = 0; s < shape[2]; ++s) {
        const auto at = static_cast<std::size_t>(row * (shape[2] + 1) + s);
        batch.tokens.push_back(samples[at]);
        batch.labels.push_back(samples[at + 1]);
        batch.loss_mask.push_back(
            static_cast<float>(mask[static_cast<std::size_t>(row * shape[2] + s)]));
        batch.positions.push_back(static_cast<std::int32_t>(s));
      }
      batch.sample_numbers.push_back(row);
    }
    return batch;
  }

  const SafetensorsFile file_{fs::path(TESSERA_SOURCE_DIR) /
                              "tests/golden/data/mtp/golden.safetensors"};
};

TEST_F(MtpGolden, LossesAndGradientsAreThoseOfPyTorch) {
  SessionOptions options;
  options.model = model();
  options.shape = {9, 2};
  options.microbatches = 2;
  Session session(options, {0, 1, 2, make_self_communicator()});
  set_weights(session);
  std::int64_t microbatch = 0;
  HostBatch current;
  const auto next = [&]() -> const HostBatch& { return current = batch(microbatch++); };
  const StepResult result = compute_gradients(session, next, LossAverage::per_microbatch);

  constexpr double kTolerance = 1e-12;
  const std::vector<double> losses = values("losses");
  EXPECT_NEAR(result.loss, losses[0], kTolerance * losses[0]);
  const ConstView mtp = session.extra_losses().values();
  ASSERT_EQ(mtp.numel(), 2);
  for (int j = 0; j < 2; ++j)
    EXPECT_NEAR(mtp.data<double>()[j], losses[static_cast<std::size_t>(j + 1)],
                kTolerance * losses[static_cast<std::size_t>(j + 1)]);
  test::Gatherer gradients;
  gradients.add_all(session.parameters().grads());
  test::GlobalTensors expected;
  const std::string prefix = "gradients.";
  for (const std::string& name : file_.names())
    if (name.starts_with(prefix))
      expected[name.substr(prefix.size())] = {file_.shape(name), values(name)};
  test::expect_tensors_near(gradients.tensors(), expected, kTolerance);
}

}  // namespace
}  // namespace tessera
