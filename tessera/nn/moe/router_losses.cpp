#include "tessera/nn/moe/router_losses.h"

#include <string>

namespace tessera {

RouterLosses::RouterLosses(const MoeSpec& spec, const LayerContext& layer)
    : choice_(spec.router.choice),
      chooses_best_(chooses_best(spec.router)),
      experts_(spec.router.experts),
      context_size_(layer.context_size),
      sequence_parallel_(layer.sequence_parallel),
      acc_(accumulator_type(layer.dtype)),
      z_coefficient_(spec.z_loss) {
  for (const BalanceLossSpec& each : spec.balance)
    balance_.push_back({each, ExtraLoss(std::string(loss_name(each.kind)))});
  if (z_coefficient_ > 0) z_.emplace(std::string(kZLossName));
}

void RouterLosses::collect(ExtraLossList& losses) {
  for (Balance& each : balance_) losses.push_back(&each.loss);
  if (z_) losses.push_back(&*z_);
}

RouterLosses::Saved RouterLosses::plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                               const BatchShape& shape, std::int64_t n) const {
  Saved saved;
  if (!activations.gradients) return saved;
  if (z_) saved.z = scratch.take(DType::f64, {1});
  if (balance_.empty()) return saved;
  const Shape groups{shape.batch, experts_}, chosen{n, choice_.topk};
  saved.counts = scratch.take(DType::f64, groups);
  saved.sums = scratch.take(DType::f64, groups);
  saved.dbalance = scratch.take(acc_, groups);
  if (chooses_best_) return saved;
  saved.expert = scratch.take(DType::i32, chosen);
  saved.weight = scratch.take(acc_, chosen);
  saved.scores = scratch.take(acc_, {n, experts_});
  return saved;
}

void RouterLosses::add_balance(Context& context, const BatchShape& shape, const Balance& balance,
                               ConstView expert, ConstView scores, const Saved& saved,
                               bool accumulate) const {
  Kernels& kernels = context.kernels;
  const bool whole = balance.spec.kind == MoeBalance::microbatch;
  const std::int64_t groups = whole ? 1 : shape.batch;
  const View counts = saved.counts.slice(0, 0, groups), sums = saved.sums.slice(0, 0, groups);
  kernels.router_load(context.stream, counts, sums, expert, scores, choice_);
  if (sequence_parallel_)
    context.mesh.tensor().all_reduce(counts, ReduceOp::sum, context.stream)->wait(context.stream);
  context.mesh.context().all_reduce(counts, ReduceOp::sum, context.stream)->wait(context.stream);
  // An extra loss is a sum over sequences: a microbatch's counts once for each of its sequences.
  const double tokens =
      static_cast<double>(shape.rows() * context_size_) / static_cast<double>(groups);
  const double sequences = static_cast<double>(shape.batch) / static_cast<double>(groups);
  const double factor = sequences * static_cast<double>(experts_) /
                        (static_cast<double>(choice_.topk) * tokens * tokens);
  kernels.balance_loss(context.stream, balance.loss.sum(), saved.dbalance, counts, sums,
                       balance.loss.grad_scale(), factor, balance.spec.coefficient, accumulate);
}

RouterGradients RouterLosses::run(Context& context, const BatchShape& shape,
                                  const Router::Saved& router, const Saved& saved) const {
  RouterGradients gradients;
  if (z_) {
    const double tokens = static_cast<double>(shape.seq * context_size_);
    context.kernels.router_z_loss(context.stream, z_->sum(), saved.z, router.logits,
                                  z_->grad_scale(), 1 / tokens, z_coefficient_);
    gradients.z = saved.z;
    gradients.logits = router.logits;
  }
  if (balance_.empty()) return gradients;
  ConstView expert = router.expert;
  if (!chooses_best_) {
    RouterSpec plain = choice_;
    plain.groups = plain.group_topk = plain.group_best = 1;
    context.kernels.route(context.stream, saved.expert, saved.weight, saved.scores, router.logits,
                          {}, plain);
    expert = saved.expert;
  }
  for (const Balance& each : balance_)
    add_balance(context, shape, each, expert, router.scores, saved, &each != &balance_.front());
  gradients.balance = saved.dbalance;
  return gradients;
}

}  // namespace tessera
