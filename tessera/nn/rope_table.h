// Cosines and sines of every position's rotation angles, made once.
#pragma once

#include <vector>

#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class RopeTable {
 public:
  /// Angle = position x frequency, computed in double; both tables are multiplied by `scale`
  /// (yarn's factor).
  RopeTable(Memory& memory, Stream& stream, DType model_dtype,
            const std::vector<double>& frequencies, double scale, std::int64_t positions);

  /// acc [positions, R]
  ConstView cos() const { return cos_.view(); }
  ConstView sin() const { return sin_.view(); }

 private:
  Tensor cos_;
  Tensor sin_;
};

}  // namespace tessera
