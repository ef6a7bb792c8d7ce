#include "tessera/model/mtp_runner.h"

#include "tessera/base/check.h"

namespace tessera {

MtpRunner::MtpRunner(GptModel& model, Context& context, std::size_t first_fsdp_unit)
    : model_(model),
      context_(context),
      first_unit_(first_fsdp_unit),
      units_(model.fsdp_unit_numbers()) {}

void MtpRunner::plan(ArenaLayout& activations, ArenaLayout& scratch, const BatchShape& shape,
                     const BlockScratch& block) {
  scratch_ = {{}, block.branch, block.d_residual};
  loss_sum_ = activations.take(DType::f64, {1});
  depths_.clear();
  ArenaLayout largest = scratch;
  for (MtpLayer& layer : model_.mtp) {
    // Depths run one after the other, and so do the embedding and the block of each.
    ArenaLayout of_embedding = scratch, of_block = scratch;
    scratch_.embedding = layer.plan_embedding(of_embedding, shape);
    Depth& depth = depths_.emplace_back();
    depth.layer = layer.plan_buffers(activations, of_block, shape);
    ActivationLayout memory{activations, activations};
    depth.head = model_.head->plan_buffers(memory, shape);
    largest.include(of_embedding);
    largest.include(of_block);
  }
  scratch = largest;
}

void MtpRunner::take_hidden(const ConstView& hidden) {
  context_.kernels.copy(context_.stream, depths_.front().layer.h, hidden);
}

void MtpRunner::run(const Microbatch& batch, View d_hidden, const LmHead::Scratch& head) {
  const TraceRange range(context_.trace, "multi-token prediction");
  check(batch.ahead.size() == depths_.size(), "a batch for {} depths, the model has {}",
        batch.ahead.size(), depths_.size());
  for (std::size_t i = 0; i < depths_.size(); ++i) forward(i, batch.ahead[i], head);
  for (std::size_t i = depths_.size(); i-- > 0;)
    backward(i, batch.ahead[i], i > 0 ? depths_[i - 1].head.x : d_hidden);
}

void MtpRunner::forward(std::size_t depth, const Microbatch& ahead, const LmHead::Scratch& head) {
  MtpLayer& layer = model_.mtp[depth];
  Depth& saved = depths_[depth];
  const bool last = depth + 1 == depths_.size();
  before_use(units_.table);
  layer.embed(context_, ahead, saved.layer, scratch_);
  before_use(units_.mtp(depth));
  layer.forward(context_, ahead, saved.head.x, saved.layer, scratch_);
  if (!last) context_.kernels.copy(context_.stream, depths_[depth + 1].layer.h, saved.head.x);
  before_use(units_.head);
  before_gradients(units_.head);
  model_.head->forward(context_, ahead, saved.head, head);
  gradients_added(units_.head, last && units_.head != units_.table);
  layer.add_loss(context_, ahead, saved.head.loss, loss_sum_);
}

void MtpRunner::backward(std::size_t depth, const Microbatch& ahead, View dh) {
  MtpLayer& layer = model_.mtp[depth];
  Depth& saved = depths_[depth];
  before_use(units_.mtp(depth));
  before_gradients(units_.mtp(depth));
  layer.backward(context_, ahead, dh, saved.head.x, saved.layer, scratch_);
  gradients_added(units_.mtp(depth), true);
  before_gradients(units_.table);
  layer.embed_backward(context_, ahead, scratch_);
  // An embedding on this chunk adds the rest.
  gradients_added(units_.table, depth == 0 && !model_.embedding);
}

}  // namespace tessera
