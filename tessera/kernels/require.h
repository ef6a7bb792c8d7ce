// Checks shared by the op checks: each message names the op, the argument, what was expected and
// what came.
#pragma once

#include <string>

#include "tessera/base/check.h"
#include "tessera/tensor/view.h"

namespace tessera {

inline void require_shape(const char* op, const char* name, const ConstView& x,
                          const Shape& shape) {
  check(x && x.shape() == shape, "{}: {} must have shape {}, got {}", op, name, shape,
        x);
}

inline void require_dtype(const char* op, const char* name, const ConstView& x, DType dtype) {
  check(x.dtype() == dtype, "{}: {} must be {}, got {}", op, name, name_of(dtype), x);
}

inline void require(const char* op, const char* name, const ConstView& x, DType dtype,
                    const Shape& shape) {
  require_shape(op, name, x, shape);
  require_dtype(op, name, x, dtype);
}

inline void require_contiguous(const char* op, const char* name, const ConstView& x) {
  check(x.is_contiguous(), "{}: {} must be contiguous, got {}", op, name, x);
}

/// A matrix or a stack of rows: last stride 1.
inline void require_rows(const char* op, const char* name, const ConstView& x, int rank) {
  check(x && x.rank() == rank && (x.dim(-1) <= 1 || x.stride(-1) == 1),
        "{}: {} must have {} dimensions and a last stride of 1, got {}", op, name, rank,
        x);
}

}  // namespace tessera
