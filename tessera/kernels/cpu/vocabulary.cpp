// Embedding lookup and its gradient, and softmax cross-entropy over this rank's columns of the
// vocabulary.
//
// With vocabulary parallelism a rank has the rows (embedding) or columns (logits) [first, first +
// V) of the vocabulary. The cross-entropy of a row with target probabilities t is
//   loss = log(sum_j e^(l_j - max)) + max - sum_j t_j l_j,  dl_j = weight (softmax_j - t_j)
// where max and the two sums are over all ranks: softmax_stats computes the local ones, the maxima
// are all-reduced, softmax_rescale moves the sums to the common maximum, and they are all-reduced.
//
// A row of logits is summed by one thread, over vector lanes and in the accumulator.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"
#include "tessera/kernels/logit_cap.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// max_j x_j; -inf for an empty row.
template <class T, class A = Accumulator<T>>
A row_maximum(const T* x, int64_t n) {
  // -inf is neutral for the maximum. A NaN never compares greater, so it reaches the loss through
  // the sum instead.
  A maximum = -std::numeric_limits<A>::infinity();
#pragma omp simd reduction(max : maximum)
  for (int64_t j = 0; j < n; ++j) {
    const A value = load(x[j]);
    maximum = value > maximum ? value : maximum;
  }
  return maximum;
}

// sum_j e^(x_j - maximum). Every term is at most 1, so the sum cannot overflow.
template <class T, class A = Accumulator<T>>
A row_exp_sum(const T* x, int64_t n, A maximum) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += exp_of(load(x[j]) - maximum);
  return sum;
}

// sum_j x_j, for label smoothing.
template <class T, class A = Accumulator<T>>
A row_sum(const T* x, int64_t n) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += load(x[j]);
  return sum;
}

// Fills `sorted` with (row of the table, row of dy) for all ids in [first_row, first_row + rows),
// sorted by both. No two pairs are equal, so the order is unique. Ids of other ranks are left out.
void sort_rows(std::vector<std::pair<int64_t, int64_t>>& sorted, const ConstView& ids,
               int64_t first_row, int64_t rows) {
  sorted.clear();
  for (int64_t i = 0; i < ids.dim(0); ++i) {
    const int64_t row = ids.data<std::int32_t>()[i] - first_row;
    if (row >= 0 && row < rows) sorted.emplace_back(row, i);
  }
  // Rows with the same id keep the order of the batch, which fixes the order of their sum.
  std::sort(sorted.begin(), sorted.end());
}

// 64 columns are four cache lines of f32 per row of dy, and few enough that a table of usual width
// gives work to all threads.
constexpr int64_t kColumns = 64;  // of one piece

// dtable[id, begin:end] += sum of dy[i, begin:end] over the rows i with that id. Pairs with the
// same table row are adjacent; their sum is carried in the accumulator in the order of i, and the
// table row is read, added to and rounded once. Threads divide the columns, so no two threads write
// to the same element, even if all rows have the same id.
template <class D, class T>
void add_rows(const View& dtable, const ConstView& dy,
              const std::vector<std::pair<int64_t, int64_t>>& sorted, int64_t begin, int64_t end) {
  for (auto next = sorted.begin(); next != sorted.end();) {
    // On the stack: one row of sums for at most 64 columns.
    Accumulator<T> sums[kColumns] = {};
    const int64_t row = next->first;
    for (; next != sorted.end() && next->first == row; ++next) {
      const T* from = dy.data<T>() + next->second * dy.stride(0) + begin;
      for (int64_t j = 0; j < end - begin; ++j) sums[j] += load(from[j]);
    }
    D* to = dtable.data<D>() + row * dtable.stride(0) + begin;
    for (int64_t j = 0; j < end - begin; ++j)
      store<D>(to[j], load(to[j]) + static_cast<Accumulator<D>>(sums[j]));
  }
}

}  // namespace

// y[i] (+)= table[ids[i] - first_row]. Rows of other ranks give 0 and read row 0 of the table
// instead of out of bounds; an all-reduce over the ranks then gives the full embedding.
void CpuKernels::do_embedding_forward(Stream&, View y, ConstView ids, ConstView table,
                                      int64_t first_row, bool accumulate) {
  dispatch_float(table.dtype(), "embedding_forward", [&]<class T>(TypeTag<T>) {
    const int64_t n = table.dim(1);
    parallel_pieces(threads_, y.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* out = y.data<T>() + i * n;
        const int64_t row = ids.data<std::int32_t>()[i] - first_row;
        // Whether the id's row is in this rank's part of the table.
        const bool here = row >= 0 && row < table.dim(0);
        const T* from = table.data<T>() + (here ? row : 0) * table.stride(0);
        for (int64_t j = 0; j < n; ++j) {
          const Accumulator<T> value = here ? load(from[j]) : Accumulator<T>(0);
          store<T>(out[j], accumulate ? load(out[j]) + value : value);
        }
      }
    });
  });
}

// None: sorted_rows_ is kept by the object.
std::size_t CpuKernels::embedding_workspace_bytes(int64_t) const { return 0; }

// dy [N, C] and dtable [V, C] may differ in type (f32 gradients of 16-bit activations).
void CpuKernels::do_embedding_backward(Stream& stream, View dtable, ConstView dy, ConstView ids,
                                       int64_t first_row, bool accumulate, Workspace) {
  // Rows of the table without an id must become 0, so the whole table is cleared first.
  if (!accumulate) do_fill(stream, dtable, 0.0);
  // Sorted once on the calling thread; all threads then read the same list.
  sort_rows(sorted_rows_, ids, first_row, dtable.dim(0));
  dispatch_float(dy.dtype(), "embedding_backward", [&]<class T>(TypeTag<T>) {
    dispatch_float(dtable.dtype(), "embedding_backward", [&]<class D>(TypeTag<D>) {
      parallel_pieces(threads_, dtable.dim(1), kColumns, [&](int64_t begin, int64_t end) {
        add_rows<D, T>(dtable, dy, sorted_rows_, begin, end);
      });
    });
  });
}

// In place over logits [N, V], a row per piece: V is large. `of_row` is a local copy so that the
// compiler need not reload it after each store to the row.
void CpuKernels::do_scale_logits(Stream&, View logits, const LogitSpec& spec) {
  dispatch_float(logits.dtype(), "scale_logits", [&]<class T>(TypeTag<T>) {
    const int64_t n = logits.dim(1);
    const LogitCap<Accumulator<T>> cap(spec);
    parallel_for(threads_, logits.dim(0), [&](int64_t i) {
      T* row = logits.data<T>() + i * logits.stride(0);
      const LogitCap<Accumulator<T>> of_row = cap;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) store<T>(row[j], of_row.template value<Math>(load(row[j])));
    });
  });
}

// stats [3, N], rows of it stats.stride(0) apart: max, sum e^(l - max), sum_j t_j l_j over the
// local columns, with t_j = each + label [j is the label]. If another rank has the label, its term
// is 0 here.
void CpuKernels::do_softmax_stats(Stream&, View stats, ConstView logits, ConstView labels,
                                  const TargetSpec& target) {
  dispatch_float(logits.dtype(), "softmax_stats", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = logits.dim(1);
    parallel_for(threads_, logits.dim(0), [&](int64_t i) {
      const T* row = logits.data<T>() + i * logits.stride(0);
      const A maximum = row_maximum(row, n);
      A* out = stats.data<A>() + i;
      out[0] = maximum;
      out[stats.stride(0)] = row_exp_sum(row, n, maximum);
      // Negative, or beyond the last column, if another rank has the label.
      const int64_t label = labels.data<std::int32_t>()[i] - target.first_column;
      A at_target =
          label >= 0 && label < n ? static_cast<A>(target.label) * load(row[label]) : A(0);
      if (target.each != 0) at_target += static_cast<A>(target.each) * row_sum(row, n);
      out[2 * stats.stride(0)] = at_target;
    });
  });
}

// sum *= e^(own maximum - global maximum), a factor of at most 1. stats are f32 or f64 only; the
// other types of the dispatch are not instantiated. Serial: there are 2 N elements.
void CpuKernels::do_softmax_rescale(Stream&, View stats, ConstView maximum) {
  dispatch_float(stats.dtype(), "softmax_rescale", [&]<class A>(TypeTag<A>) {
    if constexpr (std::is_same_v<A, Accumulator<A>>) {
      A* own = stats.data<A>();
      // Rows of stats: 0 the maximum, 1 the sum, 2 the target's logit, which does not depend on the
      // maximum.
      A* sum = own + stats.stride(0);
      const A* global = maximum.data<A>();
      for (int64_t i = 0; i < stats.dim(1); ++i) {
        sum[i] *= exp_of(own[i] - global[i]);
        own[i] = global[i];
      }
    }
  });
}

// One row per piece; stats are those of all ranks. The loss is not masked (masked_sum does that).
// weight = scale mask; a masked row has weight 0, so its gradient is exactly 0. With a scale or
// soft cap, the gradient is also multiplied by d(capped) / d(raw), a function of the capped logit
// alone (logit_cap.h). dlogits may be the logits.
void CpuKernels::do_cross_entropy(Stream&, View loss, View dlogits, ConstView logits,
                                  ConstView stats, ConstView labels, ConstView mask,
                                  ConstView scale, const TargetSpec& target,
                                  const LogitSpec& logit_spec) {
  dispatch_float(logits.dtype(), "cross_entropy", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = logits.dim(1);
    const LogitCap<A> cap(logit_spec);
    const bool plain = logit_spec.is_identity();
    parallel_for(threads_, logits.dim(0), [&](int64_t i) {
      const A* in = stats.data<A>() + i;
      const A maximum = in[0];
      const A sum = in[stats.stride(0)];
      // max - target first: both are logits of similar size, and the difference is small if the
      // model is right.
      loss.data<A>()[i] = std::log(sum) + (maximum - in[2 * stats.stride(0)]);
      if (!dlogits) return;
      const T* row = logits.data<T>() + i * logits.stride(0);
      T* out = dlogits.data<T>() + i * dlogits.stride(0);
      // The product of loss scale and mask is formed in f64 and rounded once.
      const A weight =
          static_cast<A>(scale.data<double>()[0] * static_cast<double>(mask.data<float>()[i]));
      const A factor = weight / sum;
      const int64_t label = labels.data<std::int32_t>()[i] - target.first_column;
      const bool here = label >= 0 && label < n;
      // The target's share of the gradient: `each` at every column, and `more` at the label in
      // addition.
      const A each = weight * static_cast<A>(target.each);
      const A more = weight * static_cast<A>(target.label);
      // The gradient at the label is formed before the loop, because dlogits may overwrite the row.
      // The loop treats all columns alike, without a branch, and the label is stored after it.
      const A logit_there = here ? load(row[label]) : A(0);
      const A at_label = factor * exp_of(logit_there - maximum) - each - more;
      if (plain) {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j)
          store<T>(out[j], factor * exp_of(load(row[j]) - maximum) - each);
      } else {
        const LogitCap<A> of_row = cap;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) {
          const A y = load(row[j]);
          store<T>(out[j], (factor * exp_of(y - maximum) - each) * of_row.slope(y));
        }
      }
      if (here) store<T>(out[label], plain ? at_label : at_label * cap.slope(logit_there));
    });
  });
}

// sum_i x_i mask_i in f64, serially in the order of i: N elements only, and one fixed order.
void CpuKernels::do_masked_sum(Stream&, View out, ConstView x, ConstView mask, bool accumulate) {
  dispatch_float(x.dtype(), "masked_sum", [&]<class T>(TypeTag<T>) {
    double sum = 0;
    for (int64_t i = 0; i < x.numel(); ++i)
      sum += static_cast<double>(load(x.data<T>()[i])) * static_cast<double>(mask.data<float>()[i]);
    double& total = out.data<double>()[0];
    total = accumulate ? total + sum : sum;
  });
}

}  // namespace tessera::cpu
