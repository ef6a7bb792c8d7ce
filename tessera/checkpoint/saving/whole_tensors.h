// The whole tensors of a block that is laid out like the parameters (values, gradients, a moment),
// put together on rank 0 from the pieces that the ranks hold.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine/host_block.h"
#include "tessera/engine/session.h"

namespace tessera {

class WholeTensors {
 public:
  /// All ranks call it together. On ranks other than 0 there is nothing to see afterwards.
  WholeTensors(Session& session, const ParameterBlock& block);

  /// By global name, in host memory of this object.
  const std::map<std::string, ConstView>& by_name() const { return by_name_; }

 private:
  void look_into(Session& session, const ParameterBlock& block);
  /// A tensor to be filled.
  View whole(const std::string& name, DType dtype, const Shape& shape);
  void give(Session& session, const Bucket& bucket, const View& memory);
  void take(Session& session, int from, DType dtype, const std::string& boxes);

  std::vector<HostBlock> own_;  ///< buckets: one rank has all tensors whole already
  std::map<std::string, Tensor> gathered_;
  std::map<std::string, ConstView> by_name_;
};

}  // namespace tessera
