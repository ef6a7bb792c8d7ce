// A block of one rank as a function of its input and its parameters, for gradient checks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/nn/block.h"
#include "tests/support/gradient_test.h"

namespace tessera::test {

/// Without a bias, norm after norm, or dropout: LayerNorm, GELU, 2 query heads that share a key
/// head.
inline LayerSpec small_layer() {
  LayerSpec spec;
  spec.name = "layers.0";
  spec.hidden = 6;
  AttentionLayerSpec attention;
  attention.name = "layers.0.attention";
  attention.hidden = 6;
  attention.heads = 2;
  attention.groups = 1;
  attention.head_size = 4;
  attention.softmax_scale = 0.5;
  spec.mixer = attention;
  spec.feed_forward = MlpSpec{.name = "layers.0.mlp", .hidden = 6, .ffn = 5};
  spec.norm = {NormKind::layer, 1e-5};
  return spec;
}

class BlockGradients : public GradientTest {
 protected:
  using Inputs = std::vector<Values>;  // x, then every parameter

  void use(Block& block, bool split) {
    block_ = &block;
    split_ = split;
    parameters_.clear();
    memory_.clear();
    block.collect(parameters_);
    for (Parameter* parameter : parameters_) {
      memory_.push_back(empty(parameter->shape()));
      memory_.push_back(empty(parameter->shape()));
      parameter->bind(memory_[memory_.size() - 2], memory_.back());
    }
    const auto plan = [&](ArenaLayout buffer, ArenaLayout scratch) {
      ActivationLayout activations{buffer, buffer, split};
      saved_ = block.plan_buffers(activations, scratch, shape);
      return std::pair(buffer.bytes(), scratch.bytes());
    };
    const auto [buffer_bytes, scratch_bytes] = plan({}, {});
    buffer_ = lab.workspace(buffer_bytes);
    scratch_ = lab.workspace(scratch_bytes);
    plan(ArenaLayout(buffer_), ArenaLayout(scratch_));
    workspace_ = lab.workspace(block.workspace_bytes(context.kernels, shape, shape.seq));
    context.workspace = workspace_;
    fill_batch();
  }

  Inputs random_inputs() {
    Inputs inputs{random({shape.rows(), hidden})};
    for (const Parameter* parameter : parameters_)
      inputs.push_back(random(parameter->shape(), 0.7));
    return inputs;
  }

  /// The residual stream behind the block.
  Values forward(const Inputs& inputs) {
    lab.write(saved_.x, inputs[0]);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      lab.write(parameters_[i]->value(), inputs[i + 1]);
    block_->start_first(context, saved_);
    block_->forward(context, batch, branch_, saved_);
    lab->add_dropout(stream, out_, saved_.x1, branch_.view(), block_->branch_dropout(batch));
    return lab.read(out_);
  }

  Inputs backward(const Inputs& inputs, const Values& dy) {
    forward(inputs);
    for (Parameter* parameter : parameters_) parameter->begin_step();
    const Tensor dres = tensor({shape.rows(), hidden}, dy);
    block_->backward_input(context, batch, dres, saved_, !split_);
    Inputs gradients{lab.read(dres)};
    if (split_) {
      lab->fill(stream, scratch_, 77);  // others have used it meanwhile
      lab->fill(stream, dres, 77);
      block_->backward_weight(context, saved_);
    }
    for (const Parameter* parameter : parameters_)
      gradients.push_back(lab.read(parameter->grad_view()));
    return gradients;
  }

  void check(Block& block) {
    for (const bool split : {false, true}) {
      use(block, split);
      check_gradients(
          {random_inputs(), [&](const Inputs& inputs) { return forward(inputs); },
           [&](const Inputs& inputs, const Values& dy) { return backward(inputs, dy); }});
    }
  }

  const BatchShape shape{3, 2};
  const std::int64_t hidden = 6;
  Mesh mesh{{}, make_self_communicator()};
  Context context{*lab.operator->(), lab.stream, mesh, {}};
  const LayerContext layer{.dtype = DType::f64, .seed = 5};
  RopeTables rope{lab.memory, lab.stream, DType::f64, 8};
  Microbatch batch;

 private:
  void fill_batch() {
    positions_ = lab.tensor(DType::i32, {shape.seq, shape.batch}, {0, 0, 1, 1, 2, 2});
    samples_ = lab.tensor(DType::i64, {shape.batch}, {7, 3});
    batch.shape = shape;
    batch.positions = positions_.view();
    batch.samples = samples_.view();
    branch_ = empty({shape.rows(), hidden});
    out_ = empty({shape.rows(), hidden});
  }

  Block* block_ = nullptr;
  bool split_ = false;
  ParameterList parameters_;
  std::vector<Tensor> memory_;
  Tensor buffer_, scratch_, workspace_, positions_, samples_, branch_, out_;
  Block::Saved saved_;
};

}  // namespace tessera::test
