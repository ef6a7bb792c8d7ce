// Argument checks shared by checks_*.cpp. Each message names the op, the argument, the expected
// value and the actual one. They look at shapes, dtypes and strides only, never at the data, so
// they cost no synchronisation with a device. An empty View fails every check of a shape or of
// contiguity.
#pragma once

#include "tessera/base/check.h"
#include "tessera/kernels/specs.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Exactly this shape; any dtype and strides.
inline void require_shape(const char* op, const char* name, const ConstView& x,
                          const Shape& shape) {
  check(x && x.shape() == shape, "{}: {} must have shape {}, got {}", op, name, shape, x);
}

inline void require_dtype(const char* op, const char* name, const ConstView& x, DType dtype) {
  check(x.dtype() == dtype, "{}: {} must be {}, got {}", op, name, to_string(dtype), x);
}

/// f64, f32, bf16 or f16.
inline void require_float(const char* op, const char* name, const ConstView& x) {
  check(is_float(x.dtype()), "{}: {} must be a float tensor, got {}", op, name, x);
}

/// f32 or f64: an accumulator type.
inline void require_accumulator(const char* op, const char* name, const ConstView& x) {
  check(x.dtype() == DType::f32 || x.dtype() == DType::f64, "{}: {} must be f32 or f64, got {}", op,
        name, x);
}

inline void require_contiguous(const char* op, const char* name, const ConstView& x) {
  check(x && x.is_contiguous(), "{}: {} must be contiguous, got {}", op, name, x);
}

/// `rank` dimensions and a last stride of 1, with any distance between rows. A last dimension of 0
/// or 1 element may have any stride.
inline void require_rows(const char* op, const char* name, const ConstView& x, int rank) {
  check(x && x.rank() == rank && (x.dim(-1) <= 1 || x.stride(-1) == 1),
        "{}: {} must have {} dimensions and a last stride of 1, got {}", op, name, rank, x);
}

/// Exactly this dtype and shape, and contiguous.
inline void require(const char* op, const char* name, const ConstView& x, DType dtype,
                    const Shape& shape) {
  require_shape(op, name, x, shape);
  require_dtype(op, name, x, dtype);
  require_contiguous(op, name, x);
}

/// Exactly this dtype and shape, with a last stride of 1 and any distance between rows.
inline void require_rows_of(const char* op, const char* name, const ConstView& x, DType dtype,
                            const Shape& shape) {
  require_shape(op, name, x, shape);
  require_dtype(op, name, x, dtype);
  require_rows(op, name, x, shape.rank());
}

/// At least `bytes` bytes of contiguous u8; may be empty if none are needed.
inline void require_workspace(const char* op, const Workspace& workspace, std::size_t bytes) {
  if (bytes == 0) return;
  check(workspace && workspace.dtype() == DType::u8 && workspace.is_contiguous() &&
            workspace.bytes() >= bytes,
        "{}: the workspace must be {} bytes of u8, got {}", op, bytes, workspace);
}

/// 0 <= p < 1: p = 1 would divide by 0 in 1 / (1 - p).
inline void require_probability(const char* op, const DropoutSpec& spec) {
  check(spec.p >= 0 && spec.p < 1,
        "{}: the dropout probability must be at least 0 and below 1, got {}", op, spec.p);
}

}  // namespace tessera
