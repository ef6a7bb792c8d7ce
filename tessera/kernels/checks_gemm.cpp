// Argument checks of gemm, amax and column_sum.
#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

// Checks one operand alone: a float matrix [rows, columns], an optional scale f32 [1], and an
// optional transposed copy [columns, rows]. Whether the two operands match is checked by the
// caller.
void require_operand(const char* name, const Operand& x) {
  require_rows("gemm", name, x.data, 2);
  require_float("gemm", name, x.data);
  check(!x.scale || (x.scale.dtype() == DType::f32 && x.scale.shape() == Shape{1}),
        "gemm: the scale of {} must be f32 [1], got {}", name, x.scale);
  check(!x.transposed || (x.transposed.dtype() == x.data.dtype() &&
                          x.transposed.shape() == Shape{x.data.dim(1), x.data.dim(0)}),
        "gemm: the transpose of {} must be that of {}, got {}", name, x.data, x.transposed);
}

// Asks the backend whether it supports this combination of types and scales.
void require_product(const Kernels& kernels, const View& d, const Operand& a, const Operand& b) {
  const GemmTypes types{d.dtype(), a.data.dtype(), b.data.dtype(), static_cast<bool>(a.scale),
                        static_cast<bool>(b.scale)};
  const auto kind = [](const Operand& x) { return x.scale ? "scaled " : ""; };
  check(kernels.multiplies(types),
        "gemm: this backend does not multiply {}{} (a) by {}{} (b) into {} (d)", kind(a),
        to_string(types.a), kind(b), to_string(types.b), to_string(types.d));
}

}  // namespace

void Kernels::gemm(Stream& stream, View d, const Operand& a, const Operand& b, const GemmSpec& spec,
                   Workspace workspace) {
  constexpr const char* op = "gemm";
  require_operand("a", a);
  require_operand("b", b);
  // op(a) is [m, k], op(b) is [k, n]; the stored matrices are transposed where the spec says so.
  const std::int64_t m = a.data.dim(spec.transpose_a ? 1 : 0);
  const std::int64_t k = a.data.dim(spec.transpose_a ? 0 : 1);
  const std::int64_t n = b.data.dim(spec.transpose_b ? 0 : 1);
  check(b.data.dim(spec.transpose_b ? 1 : 0) == k, "gemm: inner sizes differ: a is {}{}, b is {}{}",
        a.data, spec.transpose_a ? " transposed" : "", b.data,
        spec.transpose_b ? " transposed" : "");
  require_shape(op, "d", d, {m, n});
  require_rows(op, "d", d, 2);
  require_product(*this, d, a, b);
  // The epilogues replace d: with accumulate, gelu of a partial sum would be meaningless.
  check(!spec.accumulate || spec.epilogue == Epilogue::none,
        "gemm: accumulate excludes an epilogue");
  if (spec.bias) require(op, "bias", spec.bias, d.dtype(), {n});
  check(spec.epilogue != Epilogue::bias || spec.bias, "gemm: the bias epilogue needs a bias");
  if (spec.epilogue == Epilogue::bias_gelu || spec.epilogue == Epilogue::dgelu) {
    require_rows_of(op, "aux", spec.aux, d.dtype(), {m, n});
  }
  // Empty results need no launch. k = 0 is passed on: it means d = 0, d += 0, or the epilogue of 0.
  if (m > 0 && n > 0) do_gemm(stream, d, a, b, spec, workspace);
}

void Kernels::amax(Stream& stream, View out, ConstView x, bool accumulate) {
  constexpr const char* op = "amax";
  require(op, "out", out, DType::f32, {1});
  require_rows(op, "x", x, 2);
  require_float(op, "x", x);
  do_amax(stream, out, x, accumulate);
}

void Kernels::column_sum(Stream& stream, View db, ConstView dy, bool accumulate) {
  constexpr const char* op = "column_sum";
  require_rows(op, "dy", dy, 2);
  require_float(op, "dy", dy);
  require_float(op, "db", db);
  // db may have another float type than dy: main gradients are f32 while activations are 16-bit.
  require(op, "db", db, db.dtype(), {dy.dim(1)});
  do_column_sum(stream, db, dy, accumulate);
}

}  // namespace tessera
