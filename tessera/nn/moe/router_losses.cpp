#include "tessera/nn/moe/router_losses.h"

#include <string>

namespace tessera {
namespace {

std::optional<Parameter> expert_shares(const MoeSpec& spec, const LayerContext& layer) {
  if (!balances_globally(spec)) return std::nullopt;
  return replicated_parameter(accumulator_type(layer.dtype), shares_name(spec.router),
                              {spec.router.experts}, {InitKind::ones}, layer.tensor_rank,
                              {.placement_class = PlacementClass::buffer});
}

}  // namespace

RouterLosses::RouterLosses(const MoeSpec& spec, const LayerContext& layer)
    : choice_(spec.router.choice),
      chooses_best_(chooses_best(spec.router)),
      experts_(spec.router.experts),
      context_size_(layer.context_size),
      sequence_parallel_(layer.sequence_parallel),
      acc_(accumulator_type(layer.dtype)),
      shares_(expert_shares(spec, layer)),
      z_coefficient_(spec.z_loss) {
  for (const BalanceLossSpec& each : spec.balance)
    balance_.push_back({each, ExtraLoss(std::string(loss_name(each.kind)), spec.layer)});
  if (z_coefficient_ > 0) z_.emplace(std::string(kZLossName), spec.layer);
}

void RouterLosses::collect(ExtraLossList& losses) {
  for (Balance& each : balance_) losses.push_back(&each.loss);
  if (z_) losses.push_back(&*z_);
}

void RouterLosses::collect(ParameterList& parameters) {
  if (shares_) parameters.push_back(&*shares_);
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

double RouterLosses::finish_counts(Context& context, const BatchShape& shape, MoeBalance kind,
                                   const View& counts) const {
  Stream& stream = context.stream;
  if (kind == MoeBalance::global) {
    context.kernels.copy(stream, counts, ConstView(shares_->value()).reshape({1, experts_}));
    return 1 / static_cast<double>(shape.seq * context_size_);
  }
  if (sequence_parallel_)
    context.mesh.tensor().all_reduce(counts, ReduceOp::sum, stream)->wait(stream);
  context.mesh.context().all_reduce(counts, ReduceOp::sum, stream)->wait(stream);
  // An extra loss is a sum over sequences: a microbatch's counts once for each of its sequences.
  const auto groups = static_cast<double>(counts.dim(0));
  const double tokens = static_cast<double>(shape.rows() * context_size_) / groups;
  return static_cast<double>(shape.batch) / groups * static_cast<double>(experts_) /
         (static_cast<double>(choice_.topk) * tokens * tokens);
}

void RouterLosses::add_balance(Context& context, const BatchShape& shape, const Balance& balance,
                               ConstView expert, ConstView scores, const Saved& saved,
                               bool accumulate) const {
  Kernels& kernels = context.kernels;
  const std::int64_t groups = balance.spec.kind == MoeBalance::sequence ? shape.batch : 1;
  const View counts = saved.counts.slice(0, 0, groups), sums = saved.sums.slice(0, 0, groups);
  kernels.router_load(context.stream, counts, sums, expert, scores, choice_);
  const double factor = finish_counts(context, shape, balance.spec.kind, counts);
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
    plain.forced_balance = false;
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
