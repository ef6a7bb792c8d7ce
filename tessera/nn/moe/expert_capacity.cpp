#include "tessera/nn/moe/expert_capacity.h"

namespace tessera {

ExpertCapacity::ExpertCapacity(const MoeSpec& spec, const LayerContext& layer)
    : spec_(spec.capacity),
      router_(spec.router),
      acc_(accumulator_type(layer.dtype)),
      context_size_(layer.context_size),
      ranks_(layer.context_size * layer.tensor_size) {}

ExpertCapacity::Saved ExpertCapacity::plan_buffers(ActivationLayout& activations,
                                                   ArenaLayout& scratch, std::int64_t rows) const {
  Saved saved;
  if (!limited()) return saved;
  const std::int64_t k = router_.choice.topk;
  const Shape all{rows * ranks_, k};
  saved.kept = activations.until_input.take(DType::i32, {rows, k});
  saved.order = scratch.take(DType::i32, {all.numel()});
  saved.place = scratch.take(DType::i32, all);
  saved.offsets = scratch.take(DType::i32, {router_.experts + 1});
  if (ranks_ == 1) return saved;
  saved.expert = scratch.take(DType::i32, all);
  saved.weight = scratch.take(acc_, all);
  return saved;
}

ConstView ExpertCapacity::limit(Context& context, const Microbatch& batch,
                                const Router::Saved& router, const Saved& saved) const {
  if (!limited() || !batch.training) return router.expert;
  Communicator& group = context.mesh.pair(Axis::tensor, Axis::context);
  Stream& stream = context.stream;
  const auto gather = [&](const View& all, const View& own) -> ConstView {
    if (ranks_ == 1) return own;
    group.all_gather(all.reshape({ranks_, own.dim(0), own.dim(1)}), own, stream)->wait(stream);
    return all;
  };
  const ConstView expert = gather(saved.expert, router.expert);
  const ConstView weight = gather(saved.weight, router.weight);
  const std::int64_t seq = batch.shape.seq * context_size_;
  context.kernels.sort_by_expert(stream, saved.order, saved.place, saved.offsets, expert, 0);
  context.kernels.limit_experts(
      stream, saved.kept, expert, weight, saved.order, saved.offsets,
      group.rank() * router.expert.dim(0), {expert_capacity(*spec_, router_, seq), spec_->policy},
      {.batch = batch.shape.batch, .seq = seq, .context_ranks = context_size_});
  return saved.kept;
}

}  // namespace tessera
