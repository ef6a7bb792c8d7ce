// Combines attention over two disjoint sets of keys, a and b, into attention over both (ring
// attention):
//
//   lse = log(e^lse_a + e^lse_b)
//   o   = e^(lse_a - lse) o_a + e^(lse_b - lse) o_b
//
// o, o_a, o_b [S,B,H,E]; lse, lse_a, lse_b [B,H,S]. Work is divided by (sample, head); elements do
// not depend on each other, and each is read before it is written, so o and lse may be those of
// part a. Sums are in the accumulator; o_b may be in the accumulator type while o is 16-bit.
#include <cmath>
#include <limits>

#include "tessera/kernels/cpu/attention_blocks.h"
#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// The contribution of one part to a row of the output: weight e^(part - all) times the row. If the
// part saw no key (lse = -inf), `row` is null and the output of the part is not read: it may be
// uninitialised, and 0 x NaN would be NaN.
template <class T>
struct Part {
  using A = Accumulator<T>;
  Part(const T* out, A part, A all)
      : row(part == -std::numeric_limits<A>::infinity() ? nullptr : out),
        weight(row ? std::exp(part - all) : A(0)) {}
  A at(int64_t j) const { return row ? weight * load(row[j]) : A(0); }
  const T* row;
  A weight;
};

// log(e^a + e^b), computed from the larger one: m + log1p(e^-|a - b|), which cannot overflow. Two
// parts without keys give -inf; without that case -inf - -inf would give NaN.
template <class A>
A log_add(A a, A b) {
  const A most = b > a ? b : a;
  if (most == -std::numeric_limits<A>::infinity()) return most;
  return most + std::log1p(std::exp(-std::fabs(a - b)));
}

}  // namespace

void CpuKernels::do_attention_merge(Stream&, View o, View lse, ConstView o_a, ConstView lse_a,
                                    ConstView o_b, ConstView lse_b) {
  const int64_t queries = o.dim(0);
  const int64_t heads = o.dim(2);
  const auto merge = [&]<class T, class B>(TypeTag<T>, TypeTag<B>) {
    using A = Accumulator<T>;
    parallel_for(threads_, o.dim(1) * heads, [&](int64_t at) {
      // `at` also numbers the rows of lse, which is [B,H,S].
      const int64_t b = at / heads;
      const int64_t h = at % heads;
      const HeadRows<T> out = head_rows<T>(o, b, h);
      const HeadRows<const T> rows_a = head_rows<T>(o_a, b, h);
      const HeadRows<const B> rows_b = head_rows<B>(o_b, b, h);
      for (int64_t i = 0; i < queries; ++i) {
        // Read before lse is written, which may be lse_a.
        const A log_a = lse_a.data<A>()[at * queries + i];
        const A log_b = lse_b.data<A>()[at * queries + i];
        const A all = log_add(log_a, log_b);
        const Part<T> from_a(rows_a.data + i * rows_a.stride, log_a, all);
        const Part<B> from_b(rows_b.data + i * rows_b.stride, log_b, all);
        T* row = out.data + i * out.stride;
        for (int64_t j = 0; j < o.dim(3); ++j) store<T>(row[j], from_a.at(j) + from_b.at(j));
        lse.data<A>()[at * queries + i] = all;
      }
    });
  };
  dispatch_float(o.dtype(), "attention_merge", [&]<class T>(TypeTag<T> type) {
    dispatch_float(o_b.dtype(), "attention_merge", [&]<class B>(TypeTag<B> other) {
      // The other combinations were rejected by the checks.
      if constexpr (std::is_same_v<Accumulator<T>, Accumulator<B>>) merge(type, other);
    });
  });
}

}  // namespace tessera::cpu
