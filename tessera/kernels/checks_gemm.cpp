#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {

void Kernels::gemm(Stream& stream, View d, const Operand& a, const Operand& b, const GemmSpec& spec,
                   Workspace workspace) {
  constexpr const char* op = "gemm";
  require_rows(op, "a", a.data, 2);
  require_rows(op, "b", b.data, 2);
  const std::int64_t m = a.data.dim(spec.transpose_a ? 1 : 0);
  const std::int64_t k = a.data.dim(spec.transpose_a ? 0 : 1);
  const std::int64_t n = b.data.dim(spec.transpose_b ? 0 : 1);
  check(b.data.dim(spec.transpose_b ? 1 : 0) == k, "gemm: inner sizes differ: a is {}{}, b is {}{}",
        a.data, spec.transpose_a ? " transposed" : "", b.data,
        spec.transpose_b ? " transposed" : "");
  require_float(op, "a", a.data);
  require_dtype(op, "b", b.data, a.data.dtype());
  require_shape(op, "d", d, {m, n});
  require_rows(op, "d", d, 2);
  check(d.dtype() == a.data.dtype() || d.dtype() == accumulator_type(a.data.dtype()),
        "gemm: d must be {} or {}, got {}", to_string(a.data.dtype()),
        to_string(accumulator_type(a.data.dtype())), d);
  check(!a.scale && !b.scale, "gemm: scaled operands are not supported by this backend");
  check(!spec.accumulate || spec.epilogue == Epilogue::none,
        "gemm: accumulate excludes an epilogue");
  if (spec.bias) require(op, "bias", spec.bias, d.dtype(), {n});
  check(spec.epilogue != Epilogue::bias || spec.bias, "gemm: the bias epilogue needs a bias");
  if (spec.epilogue == Epilogue::bias_gelu || spec.epilogue == Epilogue::dgelu) {
    require_rows_of(op, "aux", spec.aux, d.dtype(), {m, n});
  }
  if (m > 0 && n > 0) do_gemm(stream, d, a, b, spec, workspace);
}

void Kernels::column_sum(Stream& stream, View db, ConstView dy, bool accumulate) {
  constexpr const char* op = "column_sum";
  require_rows(op, "dy", dy, 2);
  require_float(op, "dy", dy);
  require_float(op, "db", db);
  require(op, "db", db, db.dtype(), {dy.dim(1)});
  do_column_sum(stream, db, dy, accumulate);
}

}  // namespace tessera
