// Attention in blocks of queries and keys: the matrix of all scores never exists. Forward keeps a
// running maximum and sum per query; backward recomputes probabilities from the log-sum-exp.
#include "tessera/kernels/cpu/attention_blocks.h"

#include <omp.h>

#include <cmath>
#include <limits>

#include "tessera/kernels/cpu/blas.h"
#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// D and E: the head sizes of queries and keys, and of values.

// S[rows, columns] = Q[rows, d] K^T[d, columns]; rows of S and K^T are kKeyBlock apart.
template <class A>
void score_block(A* scores, const A* q, const A* k_transposed, const ScoreBlock& block, int64_t d) {
  blas_small_gemm(false, false, block.rows, block.columns, d, A(1), Matrix<const A>{q, d},
                  Matrix<const A>{k_transposed, kKeyBlock}, A(0), Matrix<A>{scores, kKeyBlock});
}

// The columns of a block that a query sees.
struct Visible {
  Visible(const KeyRanges& ranges, const ScoreBlock& block, int64_t b, int64_t row)
      : begin(
            std::clamp<int64_t>(ranges.begin(b, block.query + row) - block.key, 0, block.columns)),
        end(std::clamp<int64_t>(ranges.end(b, block.query + row) - block.key, begin,
                                block.columns)) {}
  int64_t begin, end;
};

// Turns a block of scores into unnormalised probabilities and folds it into the running maximum and
// sum; `out`, e wide, is rescaled to the new maximum.
template <class A>
void online_softmax(const AttentionScratch<A>& s, const KeyRanges& ranges, const ScoreBlock& block,
                    int64_t b, int64_t e) {
  for (int64_t i = 0; i < block.rows; ++i) {
    const Visible seen(ranges, block, b, i);
    A* row = s.scores + i * kKeyBlock;
    A maximum = s.maximum[i];
#pragma omp simd reduction(max : maximum)
    for (int64_t j = seen.begin; j < seen.end; ++j) maximum = row[j] > maximum ? row[j] : maximum;
    A sum = 0;
    if (seen.begin < seen.end) {
#pragma omp simd reduction(+ : sum)
      for (int64_t j = seen.begin; j < seen.end; ++j) {
        row[j] = exp_of(row[j] - maximum);
        sum += row[j];
      }
      const A rescale = exp_of(s.maximum[i] - maximum);
      if (s.maximum[i] != maximum) {
#pragma omp simd
        for (int64_t j = 0; j < e; ++j) s.out[i * e + j] *= rescale;
      }
      s.sum[i] = s.sum[i] * rescale + sum;
      s.maximum[i] = maximum;
    }
    std::fill(row, row + seen.begin, A(0));
    std::fill(row + seen.end, row + block.columns, A(0));
  }
}

template <class T>
struct Forward {
  using A = Accumulator<T>;
  ConstView q, k, v;
  View o, lse;
  const AttentionSpec& spec;
  const KeyRanges& ranges;

  void block(const AttentionScratch<A>& s, int64_t b, int64_t h, int64_t first) const {
    const int64_t d = q.dim(3);
    const int64_t e = v.dim(3);
    const int64_t rows = std::min(kQueryBlock, q.dim(0) - first);
    const int64_t kv = h / (q.dim(2) / k.dim(2));
    load_block<T>(s.q, head_rows<T>(q, b, h), first, rows, d, static_cast<A>(spec.scale));
    std::fill_n(s.out, rows * e, A(0));
    std::fill_n(s.maximum, rows, -std::numeric_limits<A>::infinity());
    std::fill_n(s.sum, rows, A(0));
    const int64_t end = ranges.end_of(b, first, first + rows);
    for (int64_t key = ranges.begin_of(b, first, first + rows); key < end; key += kKeyBlock) {
      const ScoreBlock part{first, rows, key, std::min(kKeyBlock, end - key)};
      load_transposed<T>(s.k_transposed, kKeyBlock, head_rows<T>(k, b, kv), key, part.columns, d);
      load_block<T>(s.v, head_rows<T>(v, b, kv), key, part.columns, e);
      score_block(s.scores, s.q, s.k_transposed, part, d);
      if (spec.softcap > 0) cap_block(s.scores, part, static_cast<A>(spec.softcap));
      online_softmax(s, ranges, part, b, e);
      if (spec.dropout.p > 0) drop_block(s.scores, part, spec, b, h);
      blas_small_gemm(false, false, rows, e, part.columns, A(1),
                      Matrix<const A>{s.scores, kKeyBlock}, Matrix<const A>{s.v, e}, A(1),
                      Matrix<A>{s.out, e});
    }
    finish(s, b, h, first, rows);
  }

  void finish(const AttentionScratch<A>& s, int64_t b, int64_t h, int64_t first,
              int64_t rows) const {
    const int64_t e = v.dim(3);
    A* log_sums = lse.data<A>() + (b * q.dim(2) + h) * q.dim(0) + first;
    for (int64_t i = 0; i < rows; ++i) {
      const A scale = s.sum[i] > 0 ? A(1) / s.sum[i] : A(0);
      for (int64_t j = 0; j < e; ++j) s.out[i * e + j] *= scale;
      log_sums[i] = s.maximum[i] + std::log(s.sum[i]);
    }
    store_block<T>(head_rows<T>(o, b, h), s.out, first, rows, e);
  }
};

// Everything of one sample and one key/value head: its group of query heads adds into dk and dv in
// a fixed order.
template <class T>
struct Backward {
  using A = Accumulator<T>;
  ConstView q, k, v, o, d_o, lse;
  View dq, dk, dv;
  const AttentionSpec& spec;
  const AttentionAccumulate& accumulate;
  const KeyRanges& ranges;

  int64_t group() const { return q.dim(2) / k.dim(2); }

  void head(const AttentionScratch<A>& s, int64_t b, int64_t kv) const {
    const int64_t queries = q.dim(0);
    const int64_t d = q.dim(3);
    const int64_t e = v.dim(3);
    prepare(s, b, kv);
    for (int64_t key = 0; key < k.dim(0); key += kKeyBlock) {
      const int64_t columns = std::min(kKeyBlock, k.dim(0) - key);
      load_block<T>(s.k, head_rows<T>(k, b, kv), key, columns, d);
      load_transposed<T>(s.k_transposed, kKeyBlock, head_rows<T>(k, b, kv), key, columns, d);
      load_transposed<T>(s.v_transposed, kKeyBlock, head_rows<T>(v, b, kv), key, columns, e);
      std::fill_n(s.dk, columns * d, A(0));
      std::fill_n(s.dv, columns * e, A(0));
      for (int64_t g = 0; g < group(); ++g)
        for (int64_t first = 0; first < queries; first += kQueryBlock) {
          const int64_t rows = std::min(kQueryBlock, queries - first);
          if (ranges.end_of(b, first, first + rows) <= key) continue;
          if (ranges.begin_of(b, first, first + rows) >= key + columns) continue;
          block(s, b, kv, g, {first, rows, key, columns});
        }
      store_gradient<T>(dk, b, kv, s.dk, key, columns, A(1), accumulate.dk_dv);
      store_gradient<T>(dv, b, kv, s.dv, key, columns, A(1), accumulate.dk_dv);
    }
    for (int64_t g = 0; g < group(); ++g)
      store_gradient<T>(dq, b, kv * group() + g, s.dq + g * queries * d, 0, queries,
                        static_cast<A>(spec.scale), accumulate.dq);
  }

  // delta = sum over channels of d_o o: what the softmax's own backward subtracts.
  void prepare(const AttentionScratch<A>& s, int64_t b, int64_t kv) const {
    const int64_t queries = q.dim(0);
    const int64_t e = v.dim(3);
    std::fill_n(s.dq, group() * queries * q.dim(3), A(0));
    for (int64_t g = 0; g < group(); ++g) {
      const HeadRows<const T> out = head_rows<T>(o, b, kv * group() + g);
      const HeadRows<const T> grad = head_rows<T>(d_o, b, kv * group() + g);
      for (int64_t i = 0; i < queries; ++i) {
        A sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < e; ++j)
          sum += load(out.data[i * out.stride + j]) * load(grad.data[i * grad.stride + j]);
        s.delta[g * queries + i] = sum;
      }
    }
  }

  void block(const AttentionScratch<A>& s, int64_t b, int64_t kv, int64_t g,
             const ScoreBlock& part) const {
    const int64_t d = q.dim(3);
    const int64_t e = v.dim(3);
    const int64_t h = kv * group() + g;
    load_block<T>(s.q, head_rows<T>(q, b, h), part.query, part.rows, d, static_cast<A>(spec.scale));
    load_block<T>(s.d_o, head_rows<T>(d_o, b, h), part.query, part.rows, e);
    score_block(s.scores, s.q, s.k_transposed, part, d);
    score_block(s.d_scores, s.d_o, s.v_transposed, part, e);
    if (spec.softcap > 0) cap_block(s.scores, part, static_cast<A>(spec.softcap));
    if (spec.dropout.p > 0) drop_block(s.d_scores, part, spec, b, h);
    softmax_backward(s, b, h, g, part);
    blas_small_gemm(false, false, part.rows, d, part.columns, A(1),
                    Matrix<const A>{s.d_scores, kKeyBlock}, Matrix<const A>{s.k, d}, A(1),
                    Matrix<A>{s.dq + (g * q.dim(0) + part.query) * d, d});
    blas_small_gemm(true, false, part.columns, d, part.rows, A(1),
                    Matrix<const A>{s.d_scores, kKeyBlock}, Matrix<const A>{s.q, d}, A(1),
                    Matrix<A>{s.dk, d});
    if (spec.dropout.p > 0) drop_block(s.scores, part, spec, b, h);
    blas_small_gemm(true, false, part.columns, e, part.rows, A(1),
                    Matrix<const A>{s.scores, kKeyBlock}, Matrix<const A>{s.d_o, e}, A(1),
                    Matrix<A>{s.dv, e});
  }

  // scores -> probabilities; d_scores -> probabilities (d_scores - delta), times the slope of the
  // soft cap, 1 - tanh^2.
  void softmax_backward(const AttentionScratch<A>& s, int64_t b, int64_t h, int64_t g,
                        const ScoreBlock& part) const {
    const A* log_sums = lse.data<A>() + (b * q.dim(2) + h) * q.dim(0) + part.query;
    const A* delta = s.delta + g * q.dim(0) + part.query;
    for (int64_t i = 0; i < part.rows; ++i) {
      const Visible seen(ranges, part, b, i);
      A* p = s.scores + i * kKeyBlock;
      A* dp = s.d_scores + i * kKeyBlock;
      if (spec.softcap > 0) {
        for (int64_t j = seen.begin; j < seen.end; ++j) {
          const A bent = p[j] / static_cast<A>(spec.softcap);
          p[j] = exp_of(p[j] - log_sums[i]);
          dp[j] = p[j] * (dp[j] - delta[i]) * (A(1) - bent * bent);
        }
      } else {
#pragma omp simd
        for (int64_t j = seen.begin; j < seen.end; ++j) {
          p[j] = exp_of(p[j] - log_sums[i]);
          dp[j] = p[j] * (dp[j] - delta[i]);
        }
      }
      for (A* row : {p, dp}) {
        std::fill(row, row + seen.begin, A(0));
        std::fill(row + seen.end, row + part.columns, A(0));
      }
    }
  }
};

// In front of the threads' scratch.
std::size_t ranges_bytes(int64_t batch, int64_t queries) {
  return (KeyRanges::bytes(batch, queries) + 63) / 64 * 64;
}

// The scratch of the calling thread: after the key ranges, one part per thread.
template <class A>
AttentionScratch<A> scratch_of_thread(const Workspace& workspace, int64_t batch,
                                      const AttentionSizes& sizes) {
  const std::size_t ranges = ranges_bytes(batch, sizes.queries);
  const std::size_t each = AttentionScratch<A>{}.lay_out(nullptr, sizes);
  A* memory = reinterpret_cast<A*>(workspace.data<std::uint8_t>() + ranges);
  AttentionScratch<A> scratch{};
  scratch.lay_out(memory + static_cast<std::size_t>(omp_get_thread_num()) * each, sizes);
  return scratch;
}

}  // namespace

std::size_t CpuKernels::attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v,
                                                  DType dtype) const {
  const AttentionSizes sizes(q, k, v);
  const std::size_t each = dtype == DType::f64
                               ? AttentionScratch<double>{}.lay_out(nullptr, sizes) * sizeof(double)
                               : AttentionScratch<float>{}.lay_out(nullptr, sizes) * sizeof(float);
  return ranges_bytes(q[1], q[0]) + each * static_cast<std::size_t>(threads_);
}

void CpuKernels::do_attention_forward(Stream&, View o, View lse, ConstView q, ConstView k,
                                      ConstView v, const AttentionSpec& spec, Workspace workspace) {
  const KeyRanges ranges(workspace.raw(), q.dim(1), q.dim(0), k.dim(0), spec);
  dispatch_float(q.dtype(), "attention_forward", [&]<class T>(TypeTag<T>) {
    const Forward<T> forward{q, k, v, o, lse, spec, ranges};
    const int64_t blocks = (q.dim(0) + kQueryBlock - 1) / kQueryBlock;
    const int64_t heads = q.dim(2);
    parallel_for(threads_, q.dim(1) * heads * blocks, [&](int64_t i) {
      const auto scratch = scratch_of_thread<Accumulator<T>>(
          workspace, q.dim(1), AttentionSizes(q.shape(), k.shape(), v.shape()));
      forward.block(scratch, i / blocks / heads, i / blocks % heads, i % blocks * kQueryBlock);
    });
  });
}

void CpuKernels::do_attention_backward(Stream&, View dq, View dk, View dv, ConstView d_o,
                                       ConstView q, ConstView k, ConstView v, ConstView o,
                                       ConstView lse, const AttentionSpec& spec,
                                       Workspace workspace, const AttentionAccumulate& accumulate) {
  const KeyRanges ranges(workspace.raw(), q.dim(1), q.dim(0), k.dim(0), spec);
  dispatch_float(q.dtype(), "attention_backward", [&]<class T>(TypeTag<T>) {
    const Backward<T> backward{q, k, v, o, d_o, lse, dq, dk, dv, spec, accumulate, ranges};
    const int64_t heads = k.dim(2);
    parallel_for(threads_, q.dim(1) * heads, [&](int64_t i) {
      const auto scratch = scratch_of_thread<Accumulator<T>>(
          workspace, q.dim(1), AttentionSizes(q.shape(), k.shape(), v.shape()));
      backward.head(scratch, i / heads, i % heads);
    });
  });
}

}  // namespace tessera::cpu
