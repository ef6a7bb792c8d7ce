#include "tessera/nn/mtp/mtp_layer.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

MtpLayer::MtpLayer(const MtpSpec& spec, const LayerContext& layer, RopeTables& rope,
                   TokenTable& tokens)
    : dtype_(layer.dtype),
      hidden_(spec.hidden),
      rows_(layer),
      embedding_(spec.name + ".embedding", spec.embedding, layer, tokens),
      enorm_(make_stream_norm(spec.name + ".enorm", spec.hidden, spec.norm, layer)),
      hnorm_(make_stream_norm(spec.name + ".hnorm", spec.hidden, spec.norm, layer)),
      projection_(projection_linear(spec), layer),
      block_(spec.layer, layer, rope),
      norm_(make_stream_norm(spec.name + ".final_norm", spec.hidden, spec.norm, layer)),
      loss_weight_(spec.loss_weight),
      loss_(spec.loss_name) {
  check(layer.tensor_2d == 0, "multi-token prediction needs 1-D tensor parallelism");
}

// In the order of the parameter table.
void MtpLayer::collect(ParameterList& parameters) {
  enorm_->collect(parameters);
  hnorm_->collect(parameters);
  projection_.collect(parameters);
  block_.collect(parameters);
  norm_->collect(parameters);
}

void MtpLayer::collect_losses(ExtraLossList& losses) {
  block_.collect_losses(losses);
  losses.push_back(&loss_);
}

MtpLayer::Saved MtpLayer::plan_buffers(ArenaLayout& activations, ArenaLayout& scratch,
                                       const BatchShape& shape) const {
  const std::int64_t rows = rows_.local_rows(shape);
  const auto take_stats = [&] { return activations.take(accumulator_type(dtype_), {rows, 2}); };
  Saved saved;
  saved.token = activations.take(dtype_, {rows, hidden_});
  saved.token_stats = take_stats();
  saved.h = activations.take(dtype_, {rows, hidden_});
  saved.h_stats = take_stats();
  saved.pair = activations.take(dtype_, {rows, 2 * hidden_});
  ActivationLayout layout{activations, activations};
  saved.block = block_.plan_buffers(layout, scratch, shape);
  saved.x = activations.take(dtype_, {rows, hidden_});
  saved.stats = take_stats();
  return saved;
}

std::size_t MtpLayer::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                      std::int64_t keys) const {
  return std::max({embedding_.workspace_bytes(kernels, shape),
                   norm_->workspace_bytes(kernels, shape.rows()),
                   block_.workspace_bytes(kernels, shape, keys)});
}

void MtpLayer::embed(Context& context, const Microbatch& batch, Saved& saved,
                     const Scratch& scratch) const {
  embedding_.forward(context, batch, saved.token, scratch.embedding);
}

void MtpLayer::forward(Context& context, const Microbatch& batch, View y, Saved& saved,
                       const Scratch& scratch) const {
  enorm_->forward(context, saved.pair.slice(1, 0, hidden_), saved.token_stats, saved.token);
  hnorm_->forward(context, saved.pair.slice(1, hidden_, hidden_), saved.h_stats, saved.h);
  projection_.forward(context, saved.block.x, saved.pair, {});
  block_.start_first(context, saved.block);
  block_.forward(context, batch, scratch.branch, saved.block);
  norm_->add_forward(context, y, saved.x, saved.stats, saved.block.x1, scratch.branch,
                     block_.branch_dropout(batch));
}

void MtpLayer::backward(Context& context, const Microbatch& batch, View dh, ConstView dy,
                        Saved& saved, const Scratch& scratch) {
  const View d_residual = scratch.d_residual;
  norm_->backward(context, d_residual, dy, saved.x, saved.stats, false);
  block_.backward_input(context, batch, d_residual, saved.block, true);
  projection_.backward_weight(context, d_residual, saved.pair, {});
  projection_.backward_input(context, saved.pair, d_residual, {})->wait(context.stream);
  hnorm_->backward(context, dh, saved.pair.slice(1, hidden_, hidden_), saved.h, saved.h_stats,
                   true);
  enorm_->backward(context, d_residual, saved.pair.slice(1, 0, hidden_), saved.token,
                   saved.token_stats, false);
}

void MtpLayer::embed_backward(Context& context, const Microbatch& batch, const Scratch& scratch) {
  const Embedding::Pending pending =
      embedding_.start_backward(context, batch, scratch.d_residual, scratch.embedding);
  embedding_.finish_backward(context, batch, pending, scratch.embedding);
}

// Tensor-parallel ranks have the same losses, of which one counts.
void MtpLayer::add_loss(Context& context, const Microbatch& batch, ConstView losses,
                        View sum) const {
  if (context.mesh.tensor().rank() > 0) return;
  context.kernels.masked_sum(context.stream, sum, losses, batch.mask, false);
  GemmSpec spec;
  spec.alpha = 1.0 / loss_weight_;
  spec.accumulate = true;
  const auto matrix = [](const auto& number) { return number.reshape({1, 1}); };
  context.kernels.gemm(context.stream, matrix(loss_.sum()), ConstView(matrix(sum)),
                       matrix(batch.weight), spec, context.workspace);
}

}  // namespace tessera
