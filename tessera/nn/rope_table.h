// Tables of cosines and sines of the rotation angles of all positions, computed once; and of
// factors on queries, as rotations by an angle of 0.
#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/parallel/context.h"
#include "tessera/spec/layer_spec.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class RopeTable {
 public:
  /// Angle = position x frequency, computed in double; both tables are multiplied by `scale`
  /// (yarn's factor).
  RopeTable(Memory& memory, Stream& stream, DType model_dtype,
            const std::vector<double>& frequencies, double scale, std::int64_t positions);
  /// Multiplies all channels by the factor of their position.
  RopeTable(Memory& memory, Stream& stream, DType model_dtype, const TemperatureSpec& spec,
            std::int64_t positions);

  /// acc [positions, R]
  ConstView cos() const { return cos_.view(); }
  ConstView sin() const { return sin_.view(); }

 private:
  Tensor cos_;
  Tensor sin_;
};

/// The tables of a model's layers. Layers with the same rotation share one.
class RopeTables {
 public:
  RopeTables(Memory& memory, Stream& stream, DType model_dtype, std::int64_t positions)
      : memory_(memory), stream_(stream), dtype_(model_dtype), positions_(positions) {}

  /// Computed at the first request; null for layers without rotary positions.
  const RopeTable* get(const std::optional<RopeSpec>& spec);
  const RopeTable* get(const std::optional<TemperatureSpec>& spec);
  /// Bytes of all requested tables with `positions` positions.
  std::int64_t bytes(std::int64_t positions) const;

 private:
  Memory& memory_;
  Stream& stream_;
  DType dtype_;
  std::int64_t positions_;
  std::deque<std::pair<RopeSpec, RopeTable>> tables_;
  std::deque<std::pair<TemperatureSpec, RopeTable>> temperatures_;
};

}  // namespace tessera
