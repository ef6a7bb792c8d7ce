// A transformer block on one device with all that it needs to run forward and backward.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/nn/block.h"
#include "tessera/nn/initialize.h"
#include "tests/support/tensors.h"
#include "tests/support/values.h"

namespace tessera::test {

struct BlockCase {
  std::string name;
  LayerSpec spec;
};

/// LayerNorm, biases, gelu, dropout everywhere.
inline BlockCase gpt_like() {
  LayerSpec spec;
  spec.name = "layers.0";
  spec.hidden = 96;
  spec.mixer = AttentionLayerSpec{.name = "layers.0.attention",
                                  .hidden = 96,
                                  .heads = 6,
                                  .groups = 6,
                                  .head_size = 16,
                                  .rope = {},
                                  .softmax_scale = 0.25,
                                  .qkv_bias = true,
                                  .output_bias = true,
                                  .norm = {},
                                  .dropout = 0.1,
                                  .init_std = 0.1,
                                  .output_init_std = 0.1};
  spec.feed_forward = MlpSpec{.name = "layers.0.mlp",
                              .activation = Activation::gelu,
                              .hidden = 96,
                              .ffn = 384,
                              .bias = true,
                              .init_std = 0.1,
                              .output_init_std = 0.1};
  spec.norm = {NormKind::layer, 1e-5};
  spec.hidden_dropout = 0.1;
  return {"gpt_like", spec};
}

/// RMSNorm, rotary positions, SwiGLU, query heads that share key heads, no bias.
inline BlockCase llama_like() {
  LayerSpec spec;
  spec.name = "layers.0";
  spec.hidden = 160;
  spec.mixer = AttentionLayerSpec{.name = "layers.0.attention",
                                  .hidden = 160,
                                  .heads = 8,
                                  .groups = 2,
                                  .head_size = 20,
                                  .rope = RopeSpec{{}, 20},
                                  .softmax_scale = 0.22,
                                  .norm = {},
                                  .init_std = 0.1,
                                  .output_init_std = 0.1};
  spec.feed_forward = MlpSpec{.name = "layers.0.mlp",
                              .activation = Activation::silu,
                              .gated = true,
                              .hidden = 160,
                              .ffn = 424,
                              .init_std = 0.1,
                              .output_init_std = 0.1};
  spec.norm = {NormKind::rms, 1e-6};
  return {"llama_like", spec};
}

/// Llama's, with a norm on queries and keys and a sliding window.
inline BlockCase qwen_like() {
  BlockCase result = llama_like();
  result.name = "qwen_like";
  auto& attention = std::get<AttentionLayerSpec>(result.spec.mixer);
  attention.qk_norm = QkNorm::per_head;
  attention.norm = {NormKind::rms, 1e-6};
  attention.window = 9;
  return result;
}

/// Llama's, with a mixture of five experts of which a token uses two, and a shared one.
inline BlockCase moe_like() {
  BlockCase result = llama_like();
  result.name = "moe_like";
  MlpSpec expert = std::get<MlpSpec>(result.spec.feed_forward);
  expert.name += ".experts";
  expert.ffn = 104;
  MoeSpec moe;
  moe.name = "layers.0.mlp";
  moe.router = {"layers.0.mlp.router", 5, expert.hidden, {.topk = 2}, expert.init_std};
  moe.expert = expert;
  moe.shared = std::get<MlpSpec>(result.spec.feed_forward);
  moe.shared->name += ".shared";
  result.spec.feed_forward = moe;
  return result;
}

class BlockRun {
 public:
  static constexpr std::uint64_t kSeed = 1234;

  BlockRun(Device device, const BlockCase& what, DType dtype)
      : lab(device),
        mesh_({}, make_self_communicator()),
        rope_(lab.memory, lab.stream, dtype, shape_.seq),
        block_(what.spec, {dtype, kSeed}, rope_),
        context_{*lab.operator->(), lab.stream, mesh_, {}} {
    bind_parameters();
    lay_out(dtype, what.spec.hidden);
  }

  /// Forward and backward of one microbatch, from x and the gradient of the block's output.
  void step() {
    for (Parameter* parameter : parameters_) parameter->begin_step();
    block_.start_first(context_, saved_);
    block_.forward(context_, batch_, branch_, saved_);
    lab->copy(lab.stream, dres_, d_out_.view());
    block_.backward_input(context_, batch_, dres_, saved_, true);
  }

  /// Makes every result a NaN, so that one that is not written, or added to, is seen.
  void poison() {
    for (const auto& [name, result] : results())
      lab->fill(lab.stream, result, std::numeric_limits<double>::quiet_NaN());
  }

  /// What the block computes, by name.
  std::vector<std::pair<std::string, View>> results() const {
    std::vector<std::pair<std::string, View>> all{
        {"branch", branch_.view()}, {"x1", saved_.x1}, {"dres", dres_.view()}};
    for (const Parameter* parameter : parameters_)
      all.emplace_back("gradient of " + parameter->name(), parameter->grad_view());
    return all;
  }
  const ParameterList& parameters() const { return parameters_; }

  Lab lab;

 private:
  void bind_parameters() {
    block_.collect(parameters_);
    for (Parameter* parameter : parameters_) {
      const DType acc = accumulator_type(parameter->dtype());
      owned_.push_back(lab.empty(parameter->dtype(), parameter->shape()));
      owned_.push_back(lab.empty(acc, parameter->shape()));
      parameter->bind(owned_[owned_.size() - 2], owned_.back());
    }
    initialize_parameters(context_, parameters_, kSeed);
    // Biases of zero and norms of one would hide what is done with them.
    for (const Parameter* parameter : parameters_)
      if (!parameter->decays())
        lab.write(parameter->value(), random_values(parameter->shape().numel(), 3, 0.5));
  }

  // The same code measures and hands out, as in a stage of a model.
  void plan(ArenaLayout& activations, ArenaLayout& scratch) {
    ActivationLayout both{activations, activations};
    saved_ = block_.plan_buffers(both, scratch, shape_);
  }

  void lay_out(DType dtype, std::int64_t hidden) {
    ArenaLayout activation_size, scratch_size;
    plan(activation_size, scratch_size);
    activation_memory_ = lab.workspace(activation_size.bytes());
    scratch_memory_ = lab.workspace(scratch_size.bytes());
    ArenaLayout activations(activation_memory_), scratch(scratch_memory_);
    plan(activations, scratch);
    workspace_ = lab.workspace(block_.workspace_bytes(context_.kernels, shape_, shape_.seq));
    context_.workspace = workspace_;
    fill_batch(dtype, {shape_.rows(), hidden});
  }

  void fill_batch(DType dtype, const Shape& rows) {
    Values positions;
    for (std::int64_t s = 0; s < shape_.seq; ++s)
      positions.insert(positions.end(), static_cast<std::size_t>(shape_.batch),
                       static_cast<double>(s));
    positions_ = lab.tensor(DType::i32, {shape_.seq, shape_.batch}, positions);
    samples_ = lab.tensor(DType::i64, {shape_.batch}, {7, 1099511627783, 2});
    batch_.shape = shape_;
    batch_.positions = positions_.view();
    batch_.samples = samples_.view();
    lab.write(saved_.x, random_values(rows.numel(), 1));
    d_out_ = lab.tensor(dtype, rows, random_values(rows.numel(), 2));
    dres_ = lab.empty(dtype, rows);
    branch_ = lab.empty(dtype, rows);
  }

  const BatchShape shape_{37, 3};
  Mesh mesh_;
  RopeTables rope_;
  Block block_;
  Context context_;
  ParameterList parameters_;
  std::vector<Tensor> owned_;
  Tensor activation_memory_, scratch_memory_, workspace_, positions_, samples_, d_out_, dres_,
      branch_;
  Block::Saved saved_;
  Microbatch batch_;
};

}  // namespace tessera::test
