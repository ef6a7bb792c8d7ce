// Combines attention over two disjoint sets of keys, a and b, into attention over both (ring
// attention):
//
//   lse = log(e^lse_a + e^lse_b)
//   o   = e^(lse_a - lse) o_a + e^(lse_b - lse) o_b
//
// o, o_a, o_b [S,B,H,E]; lse, lse_a, lse_b [B,H,S]. Work is divided by (sample, head); elements do
// not depend on each other, and each is read before it is written, so o and lse may be those of
// part a. Sums are in the accumulator; o and o_a may be in the accumulator type while o_b is
// 16-bit.
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

// The log-sum-exp of the queries of one head of one sample, from a tensor [B,H,S].
template <class A, class V>
A* log_sums(const V& lse, int64_t b, int64_t h) {
  return lse.template data<std::remove_const_t<A>>() + b * lse.stride(0) + h * lse.stride(1);
}

}  // namespace

void CpuKernels::do_attention_merge(Stream&, View o, View lse, ConstView o_a, ConstView lse_a,
                                    ConstView o_b, ConstView lse_b) {
  const int64_t queries = o.dim(0);
  const int64_t heads = o.dim(2);
  const auto merge = [&]<class O, class OA, class OB>(TypeTag<O>, TypeTag<OA>, TypeTag<OB>) {
    using A = Accumulator<OB>;
    parallel_for(threads_, o.dim(1) * heads, [&](int64_t at) {
      const int64_t b = at / heads;
      const int64_t h = at % heads;
      const HeadRows<O> out = head_rows<O>(o, b, h);
      const HeadRows<const OA> rows_a = head_rows<OA>(o_a, b, h);
      const HeadRows<const OB> rows_b = head_rows<OB>(o_b, b, h);
      A* const all_sums = log_sums<A>(lse, b, h);
      const A* const sums_a = log_sums<const A>(lse_a, b, h);
      const A* const sums_b = log_sums<const A>(lse_b, b, h);
      for (int64_t i = 0; i < queries; ++i) {
        // Read before lse is written, which may be lse_a.
        const A log_a = sums_a[i];
        const A log_b = sums_b[i];
        const A all = log_add(log_a, log_b);
        const Part<OA> from_a(rows_a.data + i * rows_a.stride, log_a, all);
        const Part<OB> from_b(rows_b.data + i * rows_b.stride, log_b, all);
        O* row = out.data + i * out.stride;
        for (int64_t j = 0; j < o.dim(3); ++j) store<O>(row[j], from_a.at(j) + from_b.at(j));
        all_sums[i] = all;
      }
    });
  };
  dispatch_float(o_b.dtype(), "attention_merge", [&]<class OB>(TypeTag<OB> type_b) {
    dispatch_type_or_accumulator<OB>(o.dtype(), [&](auto type) {
      dispatch_type_or_accumulator<OB>(o_a.dtype(),
                                       [&](auto type_a) { merge(type, type_a, type_b); });
    });
  });
}

}  // namespace tessera::cpu
