// Argument checks of the router's ops. The numbers of experts are in device memory, so their values
// are not checked.
#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"
#include "tessera/kernels/step_state.h"

namespace tessera {
namespace {

// [N, E] in the accumulator type.
void require_scores(const char* op, const char* name, const ConstView& x) {
  require_rows(op, name, x, 2);
  require_accumulator(op, name, x);
  require_contiguous(op, name, x);
  check(x.dim(1) > 0, "{}: there must be at least one expert, got {} {}", op, name, x);
}

// Sizes that the choice of a row relies on.
void require_spec(const char* op, const RouterSpec& spec, std::int64_t experts) {
  check(spec.groups >= 1 && spec.groups <= kMaxRouterGroups && experts % spec.groups == 0,
        "{}: {} groups must be between 1 and {} and divide the {} experts", op, spec.groups,
        kMaxRouterGroups, experts);
  const std::int64_t size = experts / spec.groups;
  check(spec.group_topk >= 1 && spec.group_topk <= spec.groups,
        "{}: of {} groups {} cannot be chosen", op, spec.groups, spec.group_topk);
  check(spec.group_best >= 1 && spec.group_best <= size, "{}: a group of {} experts has no best {}",
        op, size, spec.group_best);
  check(spec.topk >= 1 && spec.topk <= spec.group_topk * size,
        "{}: {} experts cannot be chosen out of {}", op, spec.topk, spec.group_topk * size);
}

// [G, E] statistics of groups of rows.
void require_groups(const char* op, const char* name, const ConstView& x, DType dtype,
                    const ConstView& like) {
  check(x && x.rank() == 2 && x.dim(0) > 0, "{}: {} must be [groups, experts], got {}", op, name,
        x);
  require(op, name, x, dtype, like.shape());
}

}  // namespace

void Kernels::route(Stream& stream, View expert, View weight, View scores, ConstView logits,
                    ConstView bias, const RouterSpec& spec) {
  constexpr const char* op = "route";
  require_scores(op, "logits", logits);
  require_spec(op, spec, logits.dim(1));
  require(op, "scores", scores, logits.dtype(), logits.shape());
  require(op, "expert", expert, DType::i32, {logits.dim(0), spec.topk});
  require(op, "weight", weight, logits.dtype(), expert.shape());
  if (bias) require(op, "bias", bias, logits.dtype(), {logits.dim(1)});
  do_route(stream, expert, weight, scores, logits, bias, spec);
}

void Kernels::route_backward(Stream& stream, View dlogits, ConstView expert, ConstView scores,
                             const RouterGradients& gradients, const RouterSpec& spec) {
  constexpr const char* op = "route_backward";
  require_scores(op, "scores", scores);
  require_spec(op, spec, scores.dim(1));
  require(op, "expert", expert, DType::i32, {scores.dim(0), spec.topk});
  require(op, "dweight", gradients.weight, scores.dtype(), expert.shape());
  require(op, "dlogits", dlogits, dlogits.dtype(), scores.shape());
  check(accumulator_type(dlogits.dtype()) == scores.dtype(),
        "{}: the accumulator type of dlogits must be that of the scores, {}, got {}", op,
        to_string(scores.dtype()), dlogits);
  if (const ConstView& balance = gradients.balance) {
    check(balance.rank() == 2 && balance.dim(0) > 0,
          "{}: dbalance must be [groups, experts], got {}", op, balance);
    require(op, "dbalance", balance, scores.dtype(), {balance.dim(0), scores.dim(1)});
  }
  if (gradients.z) {
    require(op, "z", gradients.z, DType::f64, {1});
    require(op, "logits", gradients.logits, scores.dtype(), scores.shape());
  }
  do_route_backward(stream, dlogits, expert, scores, gradients, spec);
}

void Kernels::router_load(Stream& stream, View counts, View sums, ConstView expert,
                          ConstView scores, const RouterSpec& spec) {
  constexpr const char* op = "router_load";
  require_scores(op, "scores", scores);
  require(op, "expert", expert, DType::i32, {scores.dim(0), spec.topk});
  require_groups(op, "counts", counts, DType::f64, counts);
  check(counts.dim(1) == scores.dim(1), "{}: counts must have {} columns, got {}", op,
        scores.dim(1), counts);
  require_groups(op, "sums", sums, DType::f64, counts);
  do_router_load(stream, counts, sums, expert, scores, spec);
}

void Kernels::limit_experts(Stream& stream, View kept, ConstView expert, ConstView weight,
                            ConstView order, ConstView offsets, std::int64_t first,
                            const CapacitySpec& spec, const SequenceRows& rows) {
  constexpr const char* op = "limit_experts";
  check(spec.capacity >= 1, "{}: the capacity must be 1 or more, got {}", op, spec.capacity);
  check(rows.batch >= 1 && rows.context_ranks >= 1 && rows.seq >= 1 &&
            (rows.context_ranks == 1 || rows.seq % (2 * std::int64_t{rows.context_ranks}) == 0),
        "{}: {} sequences of {} positions over {} ranks", op, rows.batch, rows.seq,
        rows.context_ranks);
  require_rows(op, "kept", kept, 2);
  require(op, "kept", kept, DType::i32, kept.shape());
  require(op, "expert", expert, DType::i32, {rows.batch * rows.seq, kept.dim(1)});
  require_accumulator(op, "weight", weight);
  require(op, "weight", weight, weight.dtype(), expert.shape());
  require(op, "order", order, DType::i32, {expert.numel()});
  require_rows(op, "offsets", offsets, 1);
  require(op, "offsets", offsets, DType::i32, offsets.shape());
  check(offsets.dim(0) >= 2,
        "{}: offsets must have one element more than there are experts, got {}", op, offsets);
  check(first >= 0 && first + kept.dim(0) <= expert.dim(0),
        "{}: rows {} to {} are not among the {} of all ranks", op, first, first + kept.dim(0),
        expert.dim(0));
  if (kept.numel() > 0)
    do_limit_experts(stream, kept, expert, weight, order, offsets, first, spec, rows);
}

void Kernels::count_experts(Stream& stream, View counts, ConstView expert) {
  constexpr const char* op = "count_experts";
  require_rows(op, "counts", counts, 1);
  require(op, "counts", counts, DType::f64, counts.shape());
  require_rows(op, "expert", expert, 2);
  require(op, "expert", expert, DType::i32, expert.shape());
  if (expert.numel() > 0) do_count_experts(stream, counts, expert);
}

void Kernels::expert_statistics(Stream& stream, View out, ConstView counts, ConstView kept,
                                double factor) {
  constexpr const char* op = "expert_statistics";
  require_rows(op, "counts", counts, 2);
  require(op, "counts", counts, DType::f64, counts.shape());
  if (kept) require(op, "kept", kept, DType::f64, counts.shape());
  require(op, "out", out, DType::f64, {3});
  do_expert_statistics(stream, out, counts, kept, factor);
}

void Kernels::set_expert_shares(Stream& stream, View shares, ConstView counts, ConstView state) {
  constexpr const char* op = "set_expert_shares";
  require_rows(op, "shares", shares, 1);
  require_accumulator(op, "shares", shares);
  require(op, "counts", counts, DType::f64, shares.shape());
  require(op, "state", state, DType::u8, {static_cast<std::int64_t>(sizeof(StepState))});
  do_set_expert_shares(stream, shares, counts, state);
}

void Kernels::update_expert_bias(Stream& stream, View bias, ConstView counts, ConstView state,
                                 double rate) {
  constexpr const char* op = "update_expert_bias";
  require_rows(op, "bias", bias, 1);
  require_accumulator(op, "bias", bias);
  require(op, "counts", counts, DType::f64, bias.shape());
  require(op, "state", state, DType::u8, {static_cast<std::int64_t>(sizeof(StepState))});
  do_update_expert_bias(stream, bias, counts, state, rate);
}

void Kernels::balance_loss(Stream& stream, View loss, View dbalance, ConstView counts,
                           ConstView sums, ConstView grad_scale, double factor, double coefficient,
                           bool accumulate) {
  constexpr const char* op = "balance_loss";
  require_groups(op, "counts", counts, DType::f64, counts);
  require_groups(op, "sums", sums, DType::f64, counts);
  require_rows(op, "dbalance", dbalance, 2);
  require_accumulator(op, "dbalance", dbalance);
  require(op, "dbalance", dbalance, dbalance.dtype(), {dbalance.dim(0), counts.dim(1)});
  check(dbalance.dim(0) % counts.dim(0) == 0,
        "{}: the rows of dbalance must be a multiple of the {} groups, got {}", op, counts.dim(0),
        dbalance);
  require(op, "loss", loss, DType::f64, {1});
  require(op, "grad_scale", grad_scale, DType::f64, {1});
  do_balance_loss(stream, loss, dbalance, counts, sums, grad_scale, factor, coefficient,
                  accumulate);
}

void Kernels::router_z_loss(Stream& stream, View loss, View z, ConstView logits,
                            ConstView grad_scale, double factor, double coefficient) {
  constexpr const char* op = "router_z_loss";
  require_scores(op, "logits", logits);
  require(op, "loss", loss, DType::f64, {1});
  require(op, "z", z, DType::f64, {1});
  require(op, "grad_scale", grad_scale, DType::f64, {1});
  do_router_z_loss(stream, loss, z, logits, grad_scale, factor, coefficient);
}

}  // namespace tessera
