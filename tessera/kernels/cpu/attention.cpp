// Attention forward and backward in blocks of 128 queries x 128 keys (FlashAttention's scheme), so
// the [S, T] score matrix is never stored.
//
// Shapes: q, dq [S,B,H,D]; k, dk [T,B,K,D]; v, dv [T,B,K,E]; o, d_o [S,B,H,E]; lse [B,H,S]. Query
// head h reads key/value head h / (H / K).
//
//   forward    S = scale Q K^T (soft-capped),  P = exp(S - lse),  O = dropout(P) V
//   backward   dP = dropout'(dO V^T),  delta = rowsum(dO O),  dS = P (dP - delta)
//              dQ = scale dS K,  dK = scale dS^T Q,  dV = dropout(P)^T dO
//
// The forward keeps a running maximum and sum per query (online softmax); the backward recomputes P
// from lse. Blocks are widened to the accumulator type A (f32, or f64 for f64 tensors) in the
// scratch memory of the thread, all products and sums are in A, and each result is rounded once
// when it is stored.
//
// Work is divided into independent items: (sample, query head, query block) forward and (sample,
// key/value head) backward. Each output element belongs to one item, and the blocks inside an item
// are visited in an order given by the shapes and the mask alone, so results do not depend on the
// number of threads.
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

// D: head size of queries and keys. E: head size of values. They differ in multi-head latent
// attention.

// S[rows, columns] = Q[rows, d] K^T[d, columns]; the rows of S and K^T are kKeyBlock apart. All
// columns of the block are computed, including masked ones: the softmax overwrites those with 0.
// The backward uses the same product for dP = dO V^T.
template <class A>
void score_block(A* scores, const A* q, const A* k_transposed, const ScoreBlock& block, int64_t d) {
  blas_small_gemm(false, false, block.rows, block.columns, d, A(1), Matrix<const A>{q, d},
                  Matrix<const A>{k_transposed, kKeyBlock}, A(0), Matrix<A>{scores, kKeyBlock});
}

// The columns [begin, end) of a block that one query sees, relative to the block's first key. The
// interval is empty if the query sees no key of this block.
struct Visible {
  Visible(const KeyRanges& ranges, const ScoreBlock& block, int64_t b, int64_t row)
      : begin(
            std::clamp<int64_t>(ranges.begin(b, block.query + row) - block.key, 0, block.columns)),
        end(std::clamp<int64_t>(ranges.end(b, block.query + row) - block.key, begin,
                                block.columns)) {}
  int64_t begin, end;
};

// Replaces a block of scores s by unnormalised probabilities p and folds them into the running
// state of each row:
//   m' = max(m, max_j s_j),  p_j = exp(s_j - m'),  sum' = sum exp(m - m') + sum_j p_j
// `out` [rows, e] is multiplied by exp(m - m') to match the new maximum. Masked columns become p =
// 0, so the product P V may run over the whole block. A row that sees no key of the block keeps its
// state. Before the first visible key m = -inf and the factor exp(m - m') is exactly 0; later it is
// exactly 1 if the maximum did not change, and `out` is then left untouched.
//
// The maximum and the sum are reduced over vector lanes, whose number is fixed at compile time.
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

// One forward call. block() computes the rows [first, first + kQueryBlock) of o and lse for sample
// b and query head h.
template <class T>
struct Forward {
  using A = Accumulator<T>;
  ConstView q, k, v;
  View o, lse;
  const AttentionSpec& spec;
  const KeyRanges& ranges;

  // Scale is applied to Q while it is loaded: d multiplications per query instead of one per score.
  void block(const AttentionScratch<A>& s, int64_t b, int64_t h, int64_t first) const {
    const int64_t d = q.dim(3);
    const int64_t e = v.dim(3);
    const int64_t rows = std::min(kQueryBlock, q.dim(0) - first);
    // Grouped-query attention: consecutive query heads share a key/value head.
    const int64_t kv = h / (q.dim(2) / k.dim(2));
    load_block<T>(s.q, head_rows<T>(q, b, h), first, rows, d, static_cast<A>(spec.scale));
    std::fill_n(s.out, rows * e, A(0));
    std::fill_n(s.maximum, rows, -std::numeric_limits<A>::infinity());
    std::fill_n(s.sum, rows, A(0));
    // Only blocks with a visible key are visited. The first one starts at the first visible key,
    // not at a multiple of kKeyBlock: a causal or windowed mask thus costs the fewest blocks.
    const int64_t end = ranges.end_of(b, first, first + rows);
    for (int64_t key = ranges.begin_of(b, first, first + rows); key < end; key += kKeyBlock) {
      const ScoreBlock part{first, rows, key, std::min(kKeyBlock, end - key)};
      load_transposed<T>(s.k_transposed, kKeyBlock, head_rows<T>(k, b, kv), key, part.columns, d);
      load_block<T>(s.v, head_rows<T>(v, b, kv), key, part.columns, e);
      score_block(s.scores, s.q, s.k_transposed, part, d);
      if (spec.softcap > 0) cap_block(s.scores, part, static_cast<A>(spec.softcap));
      online_softmax(s, ranges, part, b, e);
      // After the softmax: the normaliser `sum` is that of the probabilities before dropout.
      if (spec.dropout.p > 0) drop_block(s.scores, part, spec, b, h);
      blas_small_gemm(false, false, rows, e, part.columns, A(1),
                      Matrix<const A>{s.scores, kKeyBlock}, Matrix<const A>{s.v, e}, A(1),
                      Matrix<A>{s.out, e});
    }
    finish(s, b, h, first, rows);
  }

  // o = out / sum and lse = m + log(sum). A query without a visible key has sum = 0 and m = -inf:
  // it gets o = 0 and lse = -inf + log(0) = -inf, without a NaN.
  void finish(const AttentionScratch<A>& s, int64_t b, int64_t h, int64_t first,
              int64_t rows) const {
    const int64_t e = v.dim(3);
    // lse is [B,H,S], contiguous.
    A* log_sums = lse.data<A>() + (b * q.dim(2) + h) * q.dim(0) + first;
    for (int64_t i = 0; i < rows; ++i) {
      const A scale = s.sum[i] > 0 ? A(1) / s.sum[i] : A(0);
      for (int64_t j = 0; j < e; ++j) s.out[i * e + j] *= scale;
      log_sums[i] = s.maximum[i] + std::log(s.sum[i]);
    }
    store_block<T>(head_rows<T>(o, b, h), s.out, first, rows, e);
  }
};

// One backward call. head() computes all gradients of sample b and key/value head kv: dk and dv [T,
// D or E] of that head and dq of its group of H / K query heads. The query heads of a group share
// dk and dv, so they belong to one work item, which adds them in a fixed order without atomics.
template <class T>
struct Backward {
  using A = Accumulator<T>;
  ConstView q, k, v, o, d_o, lse;
  View dq, dk, dv;
  const AttentionSpec& spec;
  const AttentionAccumulate& accumulate;
  const KeyRanges& ranges;

  int64_t group() const { return q.dim(2) / k.dim(2); }

  // Key blocks are the outer loop: a block of dk and dv is complete after the loop over query heads
  // and query blocks, and is stored once. dq is accumulated over key blocks in s.dq [group, S, D],
  // which stays in A until the end, so it too is rounded once.
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
      // Keys that no query sees keep dk = dv = 0.
      std::fill_n(s.dk, columns * d, A(0));
      std::fill_n(s.dv, columns * e, A(0));
      for (int64_t g = 0; g < group(); ++g)
        for (int64_t first = 0; first < queries; first += kQueryBlock) {
          const int64_t rows = std::min(kQueryBlock, queries - first);
          // Skip blocks that are masked entirely.
          if (ranges.end_of(b, first, first + rows) <= key) continue;
          if (ranges.begin_of(b, first, first + rows) >= key + columns) continue;
          block(s, b, kv, g, {first, rows, key, columns});
        }
      // dk needs no scale here: it was formed with the scaled Q.
      store_gradient<T>(dk, b, kv, s.dk, key, columns, A(1), accumulate.dk_dv);
      store_gradient<T>(dv, b, kv, s.dv, key, columns, A(1), accumulate.dk_dv);
    }
    for (int64_t g = 0; g < group(); ++g)
      store_gradient<T>(dq, b, kv * group() + g, s.dq + g * queries * d, 0, queries,
                        static_cast<A>(spec.scale), accumulate.dq);
  }

  // delta[g, i] = sum_j dO[i, j] O[i, j], the row term of the softmax backward. It equals sum_k P
  // dP over all keys, dropout included, but costs O(S E) instead of O(S T). Also clears s.dq.
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

  // Adds one block of scores to dq, dk and dv. Five products: S and dP are recomputed here, then dQ
  // += dS K, dK += dS^T Q and dV += dropout(P)^T dO. Dropout masks are regenerated from the global
  // coordinates. P is needed without dropout by the softmax backward and with it by dV, which is
  // why it is dropped only before the last product.
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

  // In place: scores s -> P = exp(s - lse), d_scores dP -> dS = P (dP - delta). With a soft cap, s
  // = cap tanh(raw / cap) and dS is also multiplied by ds/draw = 1 - (s / cap)^2. Masked columns
  // become 0 in both. lse is finite in every row that has a visible key; rows without one never
  // reach exp. The row loop is divided over vector lanes; it has no reduction.
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
          // tanh(raw / cap), read before p[j] is overwritten.
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

// Bytes of the key ranges at the start of the workspace, rounded up to a cache line (64 bytes).
std::size_t ranges_bytes(int64_t batch, int64_t queries) {
  return (KeyRanges::bytes(batch, queries) + 63) / 64 * 64;
}

// The scratch memory of the calling thread. Workspace layout:
//   [key ranges i32 [B, S, 2] | scratch of thread 0 | scratch of thread 1 | ...]
template <class A>
AttentionScratch<A> scratch_of_thread(const Workspace& workspace, int64_t batch,
                                      const AttentionSizes& sizes) {
  const std::size_t ranges = ranges_bytes(batch, sizes.queries);
  // Elements per thread.
  const std::size_t each = AttentionScratch<A>{}.lay_out(nullptr, sizes);
  A* memory = reinterpret_cast<A*>(workspace.data<std::uint8_t>() + ranges);
  AttentionScratch<A> scratch{};
  scratch.lay_out(memory + static_cast<std::size_t>(omp_get_thread_num()) * each, sizes);
  return scratch;
}

}  // namespace

// One size serves both directions: the scratch of the backward, which contains that of the forward.
// 16-bit tensors are computed in f32.
std::size_t CpuKernels::attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v,
                                                  DType dtype, AttentionGradients) const {
  const AttentionSizes sizes(q, k, v);
  const std::size_t each = dtype == DType::f64
                               ? AttentionScratch<double>{}.lay_out(nullptr, sizes) * sizeof(double)
                               : AttentionScratch<float>{}.lay_out(nullptr, sizes) * sizeof(float);
  return ranges_bytes(q[1], q[0]) + each * static_cast<std::size_t>(threads_);
}

// B H ceil(S / 128) work items, query block fastest. Causal blocks differ in length; parallel_for
// hands them out dynamically.
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

// B K work items. There are fewer than in the forward, because all blocks of a key/value head add
// to the same dk, dv and dq.
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
