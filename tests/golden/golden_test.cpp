// The same numbers as PyTorch: logits, loss, every gradient and five AdamW steps of tiny models of
// every family, in float32 against stock transformers and in float64 against a float64 reference.
// README.md says how the files were made.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/json.h"
#include "tessera/checkpoint/saving/hf_weights.h"
#include "tessera/engine/host_block.h"
#include "tessera/engine/train_step.h"
#include "tessera/launch/launch.h"
#include "tests/support/devices.h"
#include "tests/support/global_tensors.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

const fs::path kData = fs::path(TESSERA_SOURCE_DIR) / "tests/golden/data";

constexpr const char* kExpertFamilies[] = {"mixtral",     "qwen3_moe", "qwen2_moe",
                                           "glm4_moe",    "olmoe",     "deepseek_v3_moe",
                                           "deepseek_v2", "gpt_oss",   "llama4"};

struct Tolerances {
  double logits, loss, gradients, losses, weights;
};

struct Precision {
  DType dtype;
  std::string suffix;  // of the golden tensors
  Tolerances tolerances;
};

const Precision kFloat32{DType::f32, "32", {1e-5, 1e-6, 5e-6, 1e-6, 2e-5}};
const Precision kFloat64{DType::f64, "64", {1e-9, 1e-9, 1e-9, 1e-9, 1e-9}};

std::vector<double> read_doubles(const SafetensorsFile& file, const std::string& name) {
  std::vector<double> values(static_cast<std::size_t>(file.shape(name).numel()));
  file.read(name, View(values.data(), DType::f64, file.shape(name)));
  return values;
}

test::GlobalTensors read_prefixed(const SafetensorsFile& file, const std::string& prefix) {
  test::GlobalTensors tensors;
  for (const std::string& name : file.names())
    if (name.starts_with(prefix))
      tensors[name.substr(prefix.size())] = {file.shape(name), read_doubles(file, name)};
  return tensors;
}

// The golden batches, as the loader would give them.
class GoldenBatches {
 public:
  explicit GoldenBatches(const SafetensorsFile& file)
      : shape_(file.shape("tokens")),
        tokens_(static_cast<std::size_t>(shape_.numel())),
        mask_(static_cast<std::size_t>(file.shape("loss_mask").numel())) {
    file.read("tokens", View(tokens_.data(), DType::i32, shape_));
    file.read("loss_mask", View(mask_.data(), DType::f32, file.shape("loss_mask")));
  }
  BatchShape shape() const { return {shape_[2] - 1, shape_[1]}; }

  const HostBatch& get(std::int64_t step) {
    const auto [seq, batch] = shape();
    host_ = {batch, seq, {}, {}, {}, {}, {}};
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t row = (step * batch + b) * (seq + 1);
      for (std::int64_t s = 0; s < seq; ++s) {
        host_.tokens.push_back(tokens_[static_cast<std::size_t>(row + s)]);
        host_.labels.push_back(tokens_[static_cast<std::size_t>(row + s + 1)]);
        host_.loss_mask.push_back(mask_[static_cast<std::size_t>((step * batch + b) * seq + s)]);
        host_.positions.push_back(static_cast<std::int32_t>(s));
      }
      host_.sample_numbers.push_back(step * batch + b);
    }
    return host_;
  }

 private:
  Shape shape_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> mask_;
  HostBatch host_;
};

OptimizerOptions golden_optimizer() {
  const Json json = parse_json(read_text_file(kData / "optimizer.json"), "optimizer.json");
  OptimizerOptions options;
  options.adam_beta1 = json.at("beta1");
  options.adam_beta2 = json.at("beta2");
  options.adam_eps = json.at("eps");
  options.weight_decay = json.at("weight_decay");
  options.clip_grad = json.at("clip_grad");
  return options;
}

class Golden : public testing::TestWithParam<std::tuple<std::string, Precision, Device>> {
 protected:
  Golden()
      : folder_(kData / std::get<0>(GetParam())),
        file_(kData / std::get<0>(GetParam()) / "golden.safetensors") {}

  const Precision& precision() const { return std::get<1>(GetParam()); }

  SessionOptions session_options(bool training) {
    SessionOptions options;
    options.model = folder_.model().options;
    options.model.dtype = precision().dtype;
    if (has_balances()) balance_as_golden(options.model);
    options.model.moe_bias_update_rate = 0;  // transformers leaves the bias of experts as it is
    options.optimizer = golden_optimizer();
    options.shape = batches_.shape();
    options.training = training;
    options.device = std::get<2>(GetParam());
    return options;
  }

  bool has_balances() const { return file_.contains("balances" + precision().suffix); }

  // transformers' balancing loss of a microbatch is topk times ours.
  void balance_as_golden(ModelOptions& model) const {
    const fs::path path = folder_.path() / "config.json";
    const double coefficient =
        parse_json(read_text_file(path), path.string()).at("router_aux_loss_coef");
    model.moe_balance = {MoeBalance::microbatch};
    model.moe_aux_loss_coeff = {coefficient * static_cast<double>(model.moe_router_topk)};
  }

  // The balancing loss of the last step is that of the i-th one of the file.
  void expect_balance(Session& session, std::size_t i) {
    if (!has_balances()) return;
    const HostBlock values =
        downloaded(session.context(), writable(session.extra_losses().values()));
    const double want = read_doubles(file_, "balances" + precision().suffix)[i];
    EXPECT_NEAR(values.view().data<double>()[0] *
                    static_cast<double>(session.options().model.moe_router_topk),
                want, precision().tolerances.losses * want)
        << "step " << i;
  }

  // What a block of the session holds, under Hugging Face names.
  test::GlobalTensors as_hf(Session& session, const std::vector<ParameterBlock>& blocks) {
    const fs::path path = temp_ / "block.safetensors";
    write_hf_blocks(path, session, blocks, folder_.model().family, "");
    return read_prefixed(SafetensorsFile(path), "");
  }

  test::TempFolder temp_;
  HfFolder folder_;
  SafetensorsFile file_;
  GoldenBatches batches_{file_};
  Rank rank_{0, 1, 2, make_self_communicator()};
};

TEST_P(Golden, Logits) {
  Session session(session_options(false), rank_);
  load_hf_weights(session, folder_);
  session.step_runner().batches().set(0, batches_.get(0));
  session.step_runner().batches().send(session.context().stream, LossAverage::per_token);
  session.step_runner().batches().set_training(false);
  const BatchShape shape = batches_.shape();
  const std::int64_t vocab = folder_.model().options.vocab_size;
  const Tensor logits =
      session.memory().allocate(MemoryUse::data, precision().dtype, {shape.rows(), vocab});
  session.head_runner()->forward_logits(session.step_runner().batches().microbatches()[0], logits,
                                        {});

  const std::vector<double> want = read_doubles(file_, "logits" + precision().suffix);  // [B, S, V]
  const HostBlock host = downloaded(session.context(), logits);
  std::vector<double> got(want.size());
  dispatch_float(precision().dtype, "logits", [&]<class T>(TypeTag<T>) {
    for (std::int64_t b = 0; b < shape.batch; ++b)
      for (std::int64_t s = 0; s < shape.seq; ++s)
        for (std::int64_t v = 0; v < vocab; ++v)
          got[static_cast<std::size_t>((b * shape.seq + s) * vocab + v)] =
              static_cast<double>(static_cast<Accumulator<T>>(
                  host.view().data<T>()[(s * shape.batch + b) * vocab + v]));
  });
  EXPECT_LE(test::relative_error(got, want, 0), precision().tolerances.logits);
}

TEST_P(Golden, LossAndEveryGradient) {
  Session session(session_options(true), rank_);
  load_hf_weights(session, folder_);
  const StepResult step = compute_gradients(
      session, [&]() -> const HostBatch& { return batches_.get(0); }, LossAverage::per_microbatch);
  const double loss = read_doubles(file_, "losses" + precision().suffix)[0];
  EXPECT_NEAR(step.loss, loss, precision().tolerances.loss * loss);
  expect_balance(session, 0);
  const double worst = test::expect_tensors_near(
      as_hf(session, session.parameters().grads()),
      read_prefixed(file_, "grad" + precision().suffix + "."), precision().tolerances.gradients);
  RecordProperty("worst_gradient", std::to_string(worst));
}

TEST_P(Golden, FiveAdamWSteps) {
  Session session(session_options(true), rank_);
  load_hf_weights(session, folder_);
  const std::vector<double> losses = read_doubles(file_, "losses" + precision().suffix);
  const std::vector<double> norms = read_doubles(file_, "grad_norms" + precision().suffix);
  const double rate =
      parse_json(read_text_file(kData / "optimizer.json"), "optimizer.json").at("lr");
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const StepResult step = train_step(
        session, [&]() -> const HostBatch& { return batches_.get(static_cast<std::int64_t>(i)); },
        LossAverage::per_microbatch, rate);
    EXPECT_NEAR(step.loss, losses[i], precision().tolerances.losses * losses[i]) << "step " << i;
    EXPECT_NEAR(step.grad_norm, norms[i], precision().tolerances.gradients * norms[i])
        << "step " << i;
    expect_balance(session, i);
  }
  test::expect_tensors_near(as_hf(session, session.parameters().values()),
                            read_prefixed(file_, "weights" + precision().suffix + "."),
                            precision().tolerances.weights);
}

struct ExpertLayout {
  int expert, expert_tensor, tensor, pipeline, data;
};

// What a layout of ranks writes of the weights that it read: rank 0 gathers them.
void copy_weights(const HfFolder& folder, const ExpertLayout& layout, const fs::path& to) {
  SessionOptions options;
  options.model = folder.model().options;
  options.shape = {8, 2};
  options.training = true;
  options.parallel.expert = layout.expert;
  options.parallel.expert_tensor = layout.expert_tensor;
  options.parallel.tensor = layout.tensor;
  options.parallel.sequence_parallel = layout.tensor > 1;
  options.parallel.pipeline = layout.pipeline;
  options.pipeline.first_layers = layout.pipeline > 1 ? 1 : 0;
  options.parallel.data = layout.data;
  run_ranks(options.parallel.ranks(), 1, [&](Rank& rank) {
    Session session(options, rank);
    load_hf_weights(session, folder);
    write_hf_blocks(to, session, session.parameters().values(), folder.model().family, "");
  });
}

// Each rank reads only the experts, and the parts of their matrices, that it holds.
TEST(GoldenExperts, FillEveryLayout) {
  const ExpertLayout layouts[] = {{2, 1, 1, 1, 2}, {2, 2, 2, 1, 2}, {2, 1, 2, 1, 1},
                                  {3, 1, 1, 1, 3}, {1, 2, 2, 2, 1}, {2, 1, 1, 2, 2}};
  for (const char* name : kExpertFamilies) {
    const HfFolder folder(kData / name);
    const auto want = read_prefixed(folder.files()[0], "");
    for (const auto& [expert, expert_tensor, tensor, pipeline, data] : layouts) {
      SCOPED_TRACE(fmt::format("{}: expert {} x {}, tensor {}, pipeline {}, data {}", name, expert,
                               expert_tensor, tensor, pipeline, data));
      const test::TempFolder temp;
      copy_weights(folder, {expert, expert_tensor, tensor, pipeline, data}, temp / "copy");
      test::expect_tensors_near(read_prefixed(SafetensorsFile(temp / "copy"), ""), want, 0.0);
    }
  }
}

// Without RoPE a key bias shifts all scores of a query alike: mathematics gives it no gradient.
TEST(GoldenKeyBias, HasNoGradientWithoutRope) {
  const HfFolder folder(kData / "gpt2");
  const SafetensorsFile file(kData / "gpt2/golden.safetensors");
  GoldenBatches batches(file);
  SessionOptions options;
  options.model = folder.model().options;
  options.shape = batches.shape();
  Session session(options, {0, 1, 1, make_self_communicator()});
  load_hf_weights(session, folder);
  compute_gradients(
      session, [&]() -> const HostBatch& { return batches.get(0); }, LossAverage::per_microbatch);
  test::Gatherer gradients;
  gradients.add_all(session.parameters().grads());
  const double whole = test::norm_of(gradients.tensors());
  int biases = 0;
  for (const auto& [name, tensor] : gradients.tensors())
    if (name.ends_with(".attention.k.bias")) {
      ++biases;
      EXPECT_LT(test::norm_of(tensor.values), 1e-6 * whole) << name;
    }
  EXPECT_GT(biases, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Families, Golden,
    testing::Combine(testing::Values("gpt2", "llama3", "mistral", "qwen2", "qwen3", "llama_linear",
                                     "llama_yarn", "gemma", "gemma2", "gemma3", "gpt_neox",
                                     "gpt_neox_sequential", "granite", "olmo2", "cohere", "cohere2",
                                     "phi3", "mixtral", "qwen3_moe", "qwen3_moe_v4", "qwen2_moe",
                                     "glm4_moe", "glm4_moe_v4", "olmoe", "granitemoe",
                                     "deepseek_v3", "deepseek_v3_plain_queries", "deepseek_v3_moe",
                                     "deepseek_v2", "deepseek_v2_lite", "gpt_oss", "llama4"),
                     testing::Values(kFloat32, kFloat64), testing::ValuesIn(test::devices())),
    [](const auto& test) {
      return std::get<0>(test.param) + "_f" + std::get<1>(test.param).suffix + "_" +
             test::device_name(std::get<2>(test.param));
    });

}  // namespace
}  // namespace tessera
