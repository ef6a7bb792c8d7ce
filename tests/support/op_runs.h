// One run of every op on shapes that make several pieces of work, with the bytes of all its
// results: for comparisons between thread counts, and between runs.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/kernels/step_state.h"
#include "tests/support/attention_run.h"
#include "tests/support/tensors.h"
#include "tests/support/values.h"

namespace tessera::test {

using Bytes = std::vector<std::uint8_t>;

/// A lab, a float type, and the results so far.
class OpRun {
 public:
  OpRun(Lab& on, DType type) : lab(on), stream(on.stream), dtype(type) {}

  /// Repeatable values, the same for equal shapes.
  Tensor random(const Shape& shape) { return random(dtype, shape); }
  Tensor random(DType type, const Shape& shape) {
    return lab.tensor(type, shape, random_values(shape.numel(), 3));
  }
  Tensor indices(std::int64_t n, std::int64_t end) {
    return lab.tensor(DType::i32, {n}, random_indices(n, 3, end));
  }
  Tensor zeros(DType type, const Shape& shape) { return lab.full(type, shape, 0); }
  DType acc() const { return accumulator_type(dtype); }

  /// Adds a result's bytes.
  void keep(const View& x) {
    const Bytes bytes = lab.bytes(x);
    results.insert(results.end(), bytes.begin(), bytes.end());
  }

  Lab& lab;
  Stream& stream;
  DType dtype;
  Bytes results;
};

struct NamedOp {
  const char* name;
  void (*run)(OpRun&);
};

inline void run_gemm(OpRun& t) {
  const Tensor d = t.zeros(t.dtype, {300, 280}), aux = t.zeros(t.dtype, {300, 280});
  const Tensor bias = t.random({280});
  t.lab->gemm(t.stream, d, t.random({300, 70}).view(), t.random({70, 280}).view(),
              {.epilogue = Epilogue::bias_gelu, .bias = bias, .aux = aux});
  const Tensor sum = t.zeros(t.acc(), {2, 600});
  t.lab->gemm(t.stream, sum, t.random({2, 520}).view(), t.random({600, 520}).view(),
              {.transpose_b = true});
  for (const Tensor& each : {d, aux, sum}) t.keep(each);
}

inline void run_column_sum(OpRun& t) {
  const Tensor db = t.zeros(t.dtype, {700});
  t.lab->column_sum(t.stream, db, t.random({50, 700}), false);
  t.keep(db);
}

inline void run_amax(OpRun& t) {
  const Tensor out = t.zeros(DType::f32, {1});
  t.lab->amax(t.stream, out, t.random({50, 700}), false);
  t.keep(out);
}

inline void run_attention(OpRun& t) {
  const AttentionCase c{
      .name = "", .S = 140, .T = 140, .B = 2, .H = 4, .K = 2, .D = 8, .p = 0.2, .samples = {4, 5}};
  AttentionRun run(t.lab, c, t.dtype,
                   {random_values(c.q_shape().numel(), 1), random_values(c.k_shape().numel(), 2),
                    random_values(c.k_shape().numel(), 3)});
  run.forward();
  run.backward(random_values(c.q_shape().numel(), 4));
  for (const View& each : {run.o.view, run.lse.view(), run.dq.view, run.dk.view, run.dv.view})
    t.keep(each);
  t.lab->attention_merge(t.stream, run.o.view, run.lse, run.o.view, run.lse, run.dq.view, run.lse);
  t.keep(run.o.view);
  const Tensor sink = t.random({c.H}), rows = t.zeros(t.acc(), {c.S * c.B, c.H});
  t.lab->attention_sink_forward(t.stream, run.o.view, run.lse, sink.view());
  t.lab->attention_sink_backward(t.stream, rows, run.dq.view, run.o.view, run.lse.view(),
                                 sink.view());
  t.keep(run.o.view);
  t.keep(rows);
  const auto heads = [&](const View& x) { return x.reshape({c.S * c.B, c.H, c.D}); };
  t.lab->l2_norm_forward(t.stream, heads(run.o.view), heads(run.dq.view), 1e-5);
  t.keep(run.o.view);
  t.lab->l2_norm_backward(t.stream, heads(run.o.view), heads(run.o.view), heads(run.dq.view), 1e-5);
  t.keep(run.o.view);
}

inline void run_rope(OpRun& t) {
  const Tensor x = t.random({100, 2, 10, 30});
  const Tensor positions = t.lab.tensor(DType::i32, {100, 2}, random_indices(200, 5, 100));
  t.lab->rope(t.stream, x, t.random(t.acc(), {100, 15}), t.random(t.acc(), {100, 15}), positions,
              false);
  t.keep(x);
  t.lab->rope(t.stream, x, t.random(t.acc(), {100, 15}), t.random(t.acc(), {100, 15}), positions,
              true, RopePairs::interleaved);
  t.keep(x);
  const Tensor sums = t.zeros(t.dtype, {200, 30});
  t.lab->sum_heads(t.stream, sums, x.view().reshape({200, 10, 30}));
  t.keep(sums);
  const Tensor weights = t.zeros(t.dtype, {40, 999});
  t.lab->softmax_rows(t.stream, weights, t.random(t.acc(), {40, 999}));
  t.keep(weights);
}

inline void run_norms(OpRun& t) {
  const Shape shape{300, 101};
  const Tensor x = t.random(shape), w = t.random({101}), y = t.zeros(t.dtype, shape);
  const Tensor r = t.zeros(t.dtype, shape), stats = t.zeros(t.acc(), {300, 2});
  const Tensor samples = t.lab.tensor(DType::i64, {3}, {4, 5, 6});
  t.lab->norm_forward(t.stream, y, stats, x, w, w, {});
  t.keep(y);
  t.lab->add_norm_forward(t.stream, y, r, stats, x, x, w, {}, {NormKind::rms, 1e-5},
                          {0.1, 9, samples, 0});
  const Tensor dw = t.zeros(t.acc(), {101}), db = t.zeros(t.acc(), {101});
  const Tensor dx = t.zeros(t.dtype, shape);
  t.lab->norm_backward(t.stream, dx, dw, db, y, r, stats, w, {NormKind::rms, 1e-5}, false, false,
                       t.lab.workspace(t.lab->norm_workspace_bytes(300, 101, t.dtype)));
  for (const Tensor& each : {y, r, stats, dx, dw, db}) t.keep(each);
}

inline void run_norm_parts(OpRun& t) {
  const Shape shape{300, 101};
  const Tensor x = t.random(shape), w = t.random({101}), y = t.zeros(t.dtype, shape);
  const Tensor parts = t.zeros(t.acc(), {2, 300, 2}), stats = t.zeros(t.acc(), {300, 2});
  for (const std::int64_t r : {0, 1})
    t.lab->norm_part_stats(t.stream, parts.view().slice(0, r, 1).reshape({300, 2}), x, {});
  t.lab->norm_part_forward(t.stream, y, stats, x, parts, w, w, {});
  const Tensor sums = t.zeros(t.acc(), {300, 2}), dx = t.zeros(t.dtype, shape);
  const Tensor dw = t.zeros(t.acc(), {101}), db = t.zeros(t.acc(), {101});
  t.lab->norm_part_sums(t.stream, sums, dw, db, y, x, stats, w, {}, false,
                        t.lab.workspace(t.lab->norm_workspace_bytes(300, 101, t.dtype)));
  t.lab->norm_part_backward(t.stream, dx, y, x, stats, sums, w, 202, {}, false);
  for (const Tensor& each : {parts, y, stats, sums, dw, db, dx}) t.keep(each);
}

inline void run_activations(OpRun& t) {
  const Tensor x = t.random({50, 1000}), y = t.zeros(t.dtype, {50, 500});
  const Tensor dx = t.zeros(t.dtype, {50, 1000});
  for (const Activation each : kActivations) {
    t.lab->gated_activation_forward(t.stream, y, x, each);
    t.keep(y);
    t.lab->gated_activation_backward(t.stream, dx, y, y, x, each);
    t.keep(dx);
    t.keep(y);
    t.lab->activation_forward(t.stream, dx, x, each);
    t.keep(dx);
    t.lab->activation_backward(t.stream, dx, x, x, each);
    t.keep(dx);
  }
}

inline void run_copies(OpRun& t) {
  const Tensor x = t.random({50, 1000}), y = t.zeros(t.dtype, {50, 1000});
  const Tensor samples = t.lab.tensor(DType::i64, {2}, {4, 5});
  t.lab->add_dropout(t.stream, y, x, x, {0.5, 9, samples, 0});
  t.keep(y);
  const Tensor other = t.zeros(DType::bf16, {1000, 50});
  t.lab->copy(t.stream, other, ConstView(x.view().raw(), t.dtype, {1000, 50}, {1, 1000}));
  t.keep(other);
  t.lab->fill(t.stream, y, 1.5);
  t.keep(y);
  t.lab->random_normal(t.stream, y, 5, {100, 2000}, {20, 300}, 0, 0.02);
  t.keep(y);
}

inline void run_embedding(OpRun& t) {
  const Tensor ids = t.indices(300, 40), y = t.zeros(t.dtype, {300, 150});
  t.lab->embedding_forward(t.stream, y, ids, t.random({40, 150}), 0, false);
  const Tensor dtable = t.zeros(t.acc(), {40, 150});
  t.lab->embedding_backward(t.stream, dtable, y, ids, 0, false,
                            t.lab.workspace(t.lab->embedding_workspace_bytes(300)));
  t.keep(y);
  t.keep(dtable);
}

inline void run_loss(OpRun& t) {
  const Tensor logits = t.random({40, 500}), labels = t.indices(40, 500);
  const Tensor stats = t.zeros(t.acc(), {3, 40}), loss = t.zeros(t.acc(), {40});
  const Tensor mask = t.random(DType::f32, {40}), sum = t.zeros(DType::f64, {1});
  t.lab->softmax_stats(t.stream, stats, logits, labels, {0});
  t.lab->softmax_rescale(t.stream, stats, t.lab.full(t.acc(), {40}, 5));
  t.lab->cross_entropy(t.stream, loss, logits, logits, stats, labels, mask,
                       t.lab.full(DType::f64, {1}, 0.5), {0});
  t.lab->masked_sum(t.stream, sum, loss, mask, false);
  for (const Tensor& each : {stats, logits, loss, sum}) t.keep(each);
}

inline void run_capped_loss(OpRun& t) {
  const LogitSpec spec{0.5, 3};
  const Tensor logits = t.random({40, 500}), labels = t.indices(40, 500);
  const Tensor stats = t.zeros(t.acc(), {3, 40}), loss = t.zeros(t.acc(), {40});
  t.lab->scale_logits(t.stream, logits, spec);
  t.keep(logits);
  t.lab->softmax_stats(t.stream, stats, logits, labels, {0});
  t.lab->cross_entropy(t.stream, loss, logits, logits, stats, labels, t.random(DType::f32, {40}),
                       t.lab.full(DType::f64, {1}, 0.5), {0}, spec);
  t.keep(logits);
}

inline void run_optimizers(OpRun& t) {
  const Shape shape{70'000};
  const Tensor value = t.random(shape), master = t.random(t.acc(), shape), grad = t.random(shape);
  const Tensor m = t.zeros(t.acc(), shape), v = t.zeros(t.acc(), shape);
  const Tensor squares = t.zeros(DType::f64, {1});
  const Tensor state = t.zeros(DType::u8, {sizeof(StepState)});
  const StepState start{.step = 3, .loss_scale = 8};
  t.stream.api().copy_bytes(t.stream.native(), state.view().raw(), &start, sizeof(start));
  t.lab->sum_squares(t.stream, squares, grad, false,
                     t.lab.workspace(t.lab->sum_squares_workspace_bytes(70'000)));
  const Tensor records = t.zeros(DType::u8, {4 * sizeof(StepRecord)});
  const Tensor two = t.lab.full(DType::f64, {2}, 2);
  const Tensor rates = t.lab.full(DType::f64, {2, kStepRates}, 2);
  const Tensor scales = t.zeros(DType::f64, {2});
  t.lab->start_step(t.stream, scales, two, state);
  t.lab->divide_by_sum(t.stream, scales, two);
  t.lab->finish_step(t.stream, state, records, squares, two, two, rates, {.max_norm = 1});
  t.lab->adamw_step(t.stream, value, master, m, v, grad, state, {});
  t.lab->sgd_step(t.stream, value, master, m, grad, state, {});
  const Tensor nonzero = t.zeros(DType::f64, {1});
  t.lab->count_nonzero(t.stream, nonzero, grad, false,
                       t.lab.workspace(t.lab->sum_squares_workspace_bytes(70'000)));
  for (const Tensor& each : {squares, nonzero, scales, state, records, value, master, m, v})
    t.keep(each);
}

inline void run_router(OpRun& t) {
  const std::int64_t rows = 150, experts = 40, groups = 3;
  const RouterSpec spec{4, RouterScore::sigmoid, true, 2.5, 4, 2, 2};
  const Tensor expert = t.zeros(DType::i32, {rows, 4}), weight = t.zeros(t.acc(), {rows, 4});
  const Tensor scores = t.zeros(t.acc(), {rows, experts});
  const Tensor logits = t.random(t.acc(), {rows, experts});
  t.lab->route(t.stream, expert, weight, scores, logits, {}, spec);
  const Tensor counts = t.zeros(DType::f64, {groups, experts});
  const Tensor sums = t.zeros(DType::f64, {groups, experts}), loss = t.zeros(DType::f64, {1});
  const Tensor z = t.zeros(DType::f64, {1}), one = t.lab.full(DType::f64, {1}, 1);
  const Tensor balance = t.zeros(t.acc(), {groups, experts});
  t.lab->router_load(t.stream, counts, sums, expert.view(), scores.view(), spec);
  t.lab->balance_loss(t.stream, loss, balance, counts.view(), sums.view(), one.view(), 1e-3, 1,
                      false);
  t.lab->router_z_loss(t.stream, loss, z, logits.view(), one.view(), 1e-3, 1);
  const Tensor dlogits = t.zeros(t.dtype, {rows, experts});
  t.lab->route_backward(t.stream, dlogits, expert.view(), scores.view(),
                        {weight.view(), balance.view(), z.view(), logits.view()}, spec);
  for (const Tensor& each : {expert, weight, scores, counts, sums, loss, z, balance, dlogits})
    t.keep(each);
}

inline void run_capacity(OpRun& t) {
  const std::int64_t rows = 160, experts = 5, k = 2;
  const Tensor expert = t.zeros(DType::i32, {rows, k}), weight = t.zeros(t.acc(), {rows, k});
  const Tensor logits = t.random(t.acc(), {rows, experts});
  t.lab->route(t.stream, expert, weight, logits, logits.view(), {}, {.topk = k});
  const Tensor order = t.zeros(DType::i32, {rows * k}), place = t.zeros(DType::i32, {rows, k});
  const Tensor offsets = t.zeros(DType::i32, {experts + 1});
  t.lab->sort_by_expert(t.stream, order, place, offsets, expert.view(), 0);
  const Tensor kept = t.zeros(DType::i32, {rows / 2, k});
  t.lab->limit_experts(t.stream, kept, expert.view(), weight.view(), order.view(), offsets.view(),
                       rows / 4, {.capacity = 20}, {2, 80, 2});
  const Tensor counts = t.zeros(DType::f64, {experts}), shares = t.zeros(t.acc(), {experts});
  const Tensor state = t.zeros(DType::u8, {sizeof(StepState)});
  t.lab->count_experts(t.stream, counts, kept.view());
  t.lab->set_expert_shares(t.stream, shares, counts.view(), state.view());
  const Tensor x = t.random({rows, 70}), samples = t.zeros(DType::i64, {2});
  t.lab->multiply_noise(t.stream, x, x.view(),
                        {.epsilon = 0.1, .key = 5, .samples = samples.view()});
  for (const Tensor& each : {kept, counts, shares, x}) t.keep(each);
}

inline void run_moe(OpRun& t) {
  const std::int64_t rows = 150, experts = 3, k = 2, pairs = rows * k;
  const Tensor expert = t.zeros(DType::i32, {rows, k}), weight = t.zeros(t.acc(), {rows, k});
  const Tensor logits = t.random(t.acc(), {rows, experts});
  t.lab->route(t.stream, expert, weight, logits, logits.view(), {}, {.topk = k});
  const Tensor order = t.zeros(DType::i32, {pairs}), place = t.zeros(DType::i32, {rows, k});
  const Tensor offsets = t.zeros(DType::i32, {experts});
  t.lab->sort_by_expert(t.stream, order, place, offsets, expert.view(), 1);
  const Tensor tokens = t.random({rows, 80}), w = t.random({experts - 1, 90, 80});
  const Tensor x = t.zeros(t.dtype, {pairs, 80}), sums = t.zeros(t.dtype, {rows, 80});
  t.lab->permute_rows(t.stream, x, tokens.view(), order.view(), k);
  t.lab->unpermute_rows(t.stream, sums, x.view(), place.view());
  const Tensor y = t.zeros(t.dtype, {pairs, 90}), dw = t.zeros(t.acc(), {experts - 1, 90, 80});
  t.lab->grouped_gemm(t.stream, y, x.view(), w.view(), offsets.view(), true);
  t.lab->grouped_weight_gradient(t.stream, dw, y.view(), x.view(), offsets.view(), false);
  const Tensor p = t.random(t.acc(), {pairs}), act = t.zeros(t.dtype, {pairs, 45});
  const Tensor dy = t.zeros(t.dtype, {pairs, 90}), dp = t.zeros(t.acc(), {pairs});
  t.lab->expert_activation_forward(t.stream, act, y.view(), p.view(), Activation::silu);
  t.lab->expert_activation_backward(t.stream, dy, {}, dp, act.view(), y.view(), p.view(),
                                    Activation::silu);
  const Tensor scaled = t.zeros(t.dtype, {pairs, 80}), dots = t.zeros(t.acc(), {pairs});
  t.lab->scale_rows(t.stream, scaled, x.view(), p.view());
  t.lab->row_dot(t.stream, dots, x.view(), scaled.view());
  const Tensor bias = t.random({experts - 1, 90}), dbias = t.zeros(t.acc(), {experts - 1, 90});
  t.lab->add_expert_bias(t.stream, y, bias.view(), offsets.view(), p.view());
  t.lab->expert_bias_gradient(t.stream, dbias, y.view(), offsets.view(), p.view(), false);
  t.lab->expert_bias_dot(t.stream, dp, y.view(), bias.view(), offsets.view());
  for (const Tensor& each :
       {expert, weight, order, place, offsets, x, sums, y, dw, act, dy, dp, scaled, dots, dbias})
    t.keep(each);
}

inline constexpr NamedOp kEveryOp[] = {{"gemm", run_gemm},
                                       {"column_sum", run_column_sum},
                                       {"amax", run_amax},
                                       {"attention", run_attention},
                                       {"rope", run_rope},
                                       {"norms", run_norms},
                                       {"norm_parts", run_norm_parts},
                                       {"copies", run_copies},
                                       {"activations", run_activations},
                                       {"loss", run_loss},
                                       {"capped loss", run_capped_loss},
                                       {"embedding", run_embedding},
                                       {"router", run_router},
                                       {"mixture of experts", run_moe},
                                       {"experts with capacity", run_capacity},
                                       {"optimizers", run_optimizers}};

}  // namespace tessera::test
