#include "tessera/nn/moe/expert_products.h"

#include <cstddef>
#include <vector>

namespace tessera {
namespace {

struct ExpertRows {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  ConstView of(const ConstView& rows) const { return rows.slice(0, begin, count); }
  View of(const View& rows) const { return rows.slice(0, begin, count); }
};

std::vector<ExpertRows> read_rows(Context& context, const ConstView& offsets) {
  std::vector<std::int32_t> host(static_cast<std::size_t>(offsets.dim(0)));
  Stream& stream = context.stream;
  stream.api().copy_bytes(stream.native(), host.data(), offsets.raw(), offsets.bytes());
  stream.synchronize();
  std::vector<ExpertRows> rows;
  for (std::size_t e = 0; e + 1 < host.size(); ++e)
    rows.push_back({host[e], host[e + 1] - host[e]});
  return rows;
}

// The matrix of expert `e`, [n, k], out of [L, n, k].
template <class AnyView>
AnyView matrix(const AnyView& all, std::int64_t e) {
  return all.slice(0, e, 1).reshape({all.dim(1), all.dim(2)});
}

}  // namespace

void ExpertProducts::multiply(Context& context, View d, ConstView a, ConstView b, ConstView offsets,
                              bool transpose_b) const {
  Kernels& kernels = context.kernels;
  if (grouped_) return kernels.grouped_gemm(context.stream, d, a, b, offsets, transpose_b);
  GemmSpec spec;
  spec.transpose_b = transpose_b;
  std::int64_t expert = 0, end = 0;
  for (const ExpertRows& rows : read_rows(context, offsets)) {
    if (rows.count > 0)
      kernels.gemm(context.stream, rows.of(d), rows.of(a), matrix(b, expert), spec,
                   context.workspace);
    end = rows.begin + rows.count;
    ++expert;
  }
  if (end < d.dim(0)) kernels.fill(context.stream, d.slice(0, end, d.dim(0) - end), 0);
}

void ExpertProducts::weight_gradient(Context& context, const Gradient& d, ConstView a, ConstView b,
                                     ConstView offsets) const {
  Kernels& kernels = context.kernels;
  if (grouped_)
    return kernels.grouped_weight_gradient(context.stream, d.view, a, b, offsets, d.accumulate);
  GemmSpec spec;
  spec.transpose_a = true;
  spec.accumulate = d.accumulate;
  std::int64_t expert = 0;
  for (const ExpertRows& rows : read_rows(context, offsets)) {
    const View gradient = matrix(d.view, expert++);
    if (rows.count > 0)
      kernels.gemm(context.stream, gradient, rows.of(a), rows.of(b), spec, context.workspace);
    else if (!d.accumulate)
      kernels.fill(context.stream, gradient, 0);
  }
}

}  // namespace tessera
