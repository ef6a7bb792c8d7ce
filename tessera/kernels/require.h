// Checks shared by the op checks: each message names the op, the argument, what was expected and
// what came.
#pragma once

#include "tessera/base/check.h"
#include "tessera/kernels/specs.h"
#include "tessera/tensor/view.h"

namespace tessera {

inline void require_shape(const char* op, const char* name, const ConstView& x,
                          const Shape& shape) {
  check(x && x.shape() == shape, "{}: {} must have shape {}, got {}", op, name, shape, x);
}

inline void require_dtype(const char* op, const char* name, const ConstView& x, DType dtype) {
  check(x.dtype() == dtype, "{}: {} must be {}, got {}", op, name, to_string(dtype), x);
}

inline void require_float(const char* op, const char* name, const ConstView& x) {
  check(is_float(x.dtype()), "{}: {} must be a float tensor, got {}", op, name, x);
}

/// f32 or f64: what sums are carried in.
inline void require_accumulator(const char* op, const char* name, const ConstView& x) {
  check(x.dtype() == DType::f32 || x.dtype() == DType::f64, "{}: {} must be f32 or f64, got {}", op,
        name, x);
}

inline void require_contiguous(const char* op, const char* name, const ConstView& x) {
  check(x && x.is_contiguous(), "{}: {} must be contiguous, got {}", op, name, x);
}

/// A matrix or a stack of rows with any distance between them: last stride 1.
inline void require_rows(const char* op, const char* name, const ConstView& x, int rank) {
  check(x && x.rank() == rank && (x.dim(-1) <= 1 || x.stride(-1) == 1),
        "{}: {} must have {} dimensions and a last stride of 1, got {}", op, name, rank, x);
}

/// Exactly this, and contiguous.
inline void require(const char* op, const char* name, const ConstView& x, DType dtype,
                    const Shape& shape) {
  require_shape(op, name, x, shape);
  require_dtype(op, name, x, dtype);
  require_contiguous(op, name, x);
}

/// Exactly this, with any distance between rows.
inline void require_rows_of(const char* op, const char* name, const ConstView& x, DType dtype,
                            const Shape& shape) {
  require_shape(op, name, x, shape);
  require_dtype(op, name, x, dtype);
  require_rows(op, name, x, shape.rank());
}

inline void require_workspace(const char* op, const Workspace& workspace, std::size_t bytes) {
  if (bytes == 0) return;
  check(workspace && workspace.dtype() == DType::u8 && workspace.is_contiguous() &&
            workspace.bytes() >= bytes,
        "{}: the workspace must be {} bytes of u8, got {}", op, bytes, workspace);
}

inline void require_probability(const char* op, const DropoutSpec& spec) {
  check(spec.p >= 0 && spec.p < 1,
        "{}: the dropout probability must be at least 0 and below 1, got {}", op, spec.p);
}

}  // namespace tessera
