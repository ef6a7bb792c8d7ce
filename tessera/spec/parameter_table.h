// The parameters of a model, derived from its spec: names, global shapes, initial values, placement
// classes, in the order of the forward pass. Layers create the same ones, split over ranks; a test
// compares them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/parallel/placement.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

struct ParameterInfo {
  std::string name;  ///< layers.3.attention.q.weight
  Shape shape;
  InitSpec init;
  PlacementClass placement_class = PlacementClass::dense;

  bool decays() const { return weight_decays(name, shape); }
};

class ParameterTable {
 public:
  explicit ParameterTable(const ModelSpec& spec);

  const std::vector<ParameterInfo>& all() const { return all_; }
  /// Null if the model has no parameter of that name.
  const ParameterInfo* find(const std::string& name) const;
  /// Of one that it has.
  const Shape& shape(const std::string& name) const;

 private:
  std::vector<ParameterInfo> all_;
  std::unordered_map<std::string, std::size_t> numbers_;
};

/// The number of elements of all parameters, without buffers. In double, which is exact up to 2^53,
/// so that absurd sizes do not overflow.
double parameter_count(const ModelSpec& spec);

}  // namespace tessera
