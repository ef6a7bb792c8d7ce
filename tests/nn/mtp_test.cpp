// Gradients of a depth of multi-token prediction by central differences: of its hidden state, of
// its parameters and of the word embeddings, with dropout and scales.
#include "tessera/nn/mtp/mtp_layer.h"

#include <gtest/gtest.h>

#include "tests/nn/block_gradients.h"

namespace tessera::test {
namespace {

class MtpLayerGradients : public GradientTest {
 protected:
  using Inputs = std::vector<Values>;  // h, the word embeddings, every other parameter

  static MtpSpec spec() {
    MtpSpec spec;
    spec.name = "mtp.0";
    spec.hidden = 6;
    spec.embedding = {.vocab = 7, .hidden = 6, .dropout = 0.3, .scale = 1.5};
    spec.norm = {NormKind::layer, 1e-5};
    spec.layer = small_layer();
    spec.layer.hidden_dropout = 0.2;
    spec.layer.residual_scale = 0.7;
    return spec;
  }

  MtpLayerGradients() {
    parameters_.push_back(&table_->parameter());
    mtp_.collect(parameters_);
    for (Parameter* parameter : parameters_) {
      memory_.push_back(empty(parameter->shape()));
      memory_.push_back(empty(parameter->shape()));
      parameter->bind(memory_[memory_.size() - 2], memory_.back());
    }
    const auto plan = [&](ArenaLayout buffer, ArenaLayout scratch) {
      ArenaLayout embedding = scratch;
      scratch_.embedding = mtp_.plan_embedding(embedding, shape);
      saved_ = mtp_.plan_buffers(buffer, scratch, shape);
      scratch.include(embedding);
      return std::pair(buffer.bytes(), scratch.bytes());
    };
    const auto [buffer_bytes, scratch_bytes] = plan({}, {});
    buffer_ = lab.workspace(buffer_bytes);
    scratch_memory_ = lab.workspace(scratch_bytes);
    plan(ArenaLayout(buffer_), ArenaLayout(scratch_memory_));
    scratch_.branch = branch_;
    scratch_.d_residual = d_residual_;
    workspace_ = lab.workspace(mtp_.workspace_bytes(context.kernels, shape, shape.seq));
    context.workspace = workspace_;
    batch.shape = shape;
    batch.tokens = tokens_.view();
    batch.positions = positions_.view();
    batch.samples = samples_.view();
  }

  Values forward(const Inputs& inputs) {
    lab.write(saved_.h, inputs[0]);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      lab.write(parameters_[i]->value(), inputs[i + 1]);
    mtp_.embed(context, batch, saved_, scratch_);
    mtp_.forward(context, batch, y_, saved_, scratch_);
    return lab.read(y_);
  }

  // Gradients that were there are added to: here ones.
  Inputs backward(const Inputs& inputs, const Values& dy) {
    forward(inputs);
    for (Parameter* parameter : parameters_) parameter->begin_step();
    const Tensor dh = lab.full(DType::f64, {shape.rows(), 6}, 1);
    mtp_.backward(context, batch, dh, tensor({shape.rows(), 6}, dy).view(), saved_, scratch_);
    mtp_.embed_backward(context, batch, scratch_);
    Inputs gradients{lab.read(dh)};
    for (double& value : gradients[0]) value -= 1;
    for (const Parameter* parameter : parameters_)
      gradients.push_back(lab.read(parameter->grad_view()));
    return gradients;
  }

  const BatchShape shape{3, 2};
  Mesh mesh{{}, make_self_communicator()};
  Context context{*lab.operator->(), lab.stream, mesh, {}};
  const LayerContext layer{.dtype = DType::f64, .seed = 5};
  RopeTables rope{lab.memory, lab.stream, DType::f64, 8};
  Microbatch batch;
  std::unique_ptr<TokenTable> table_ = make_token_table(7, 6, 0.1, layer);
  MtpLayer mtp_{spec(), layer, rope, *table_};
  ParameterList parameters_;

 private:
  std::vector<Tensor> memory_;
  Tensor buffer_, scratch_memory_, workspace_;
  Tensor branch_ = empty({6, 6}), d_residual_ = empty({6, 6}), y_ = empty({6, 6});
  Tensor tokens_ = lab.tensor(DType::i32, {6}, {4, 0, 4, 6, 2, 1});
  Tensor positions_ = lab.tensor(DType::i32, {3, 2}, {0, 0, 1, 1, 2, 2});
  Tensor samples_ = lab.tensor(DType::i64, {2}, {7, 3});
  MtpLayer::Saved saved_;
  MtpLayer::Scratch scratch_;
};

TEST_P(MtpLayerGradients, AreThoseOfItsForward) {
  Inputs inputs{random({shape.rows(), 6})};
  for (const Parameter* parameter : parameters_) inputs.push_back(random(parameter->shape(), 0.7));
  check_gradients({inputs, [&](const Inputs& at) { return forward(at); },
                   [&](const Inputs& at, const Values& dy) { return backward(at, dy); }});
}

TESSERA_GRADIENT_SUITE(MtpLayerGradients);

}  // namespace
}  // namespace tessera::test
