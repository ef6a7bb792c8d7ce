// Copies elements between views in host memory, changing the float type on the way.
#pragma once

#include <cstdint>

#include "tessera/tensor/view.h"

namespace tessera {

/// Copies `source` into `destination`. Shapes must agree; dtypes must agree or both be floats. Both
/// may be strided, and either may be unaligned for its dtype (as data inside a file can be).
void convert_into(const View& destination, const ConstView& source);

/// The narrowest float type that holds the values of both exactly.
DType common_type(DType a, DType b);

/// [a, b] seen as [b, a] by exchanging the strides; vectors stay as they are.
View transposed_view(const View& view);

/// The i-th matrix of [n, a, b], as [a, b], or the i-th vector of [n, a].
View matrix_view(const View& stack, std::int64_t i);

/// [a, b] seen as [1, a, b], or [a] as [1, a].
View stack_view(const View& matrix);

}  // namespace tessera
