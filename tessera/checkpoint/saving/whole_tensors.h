// The whole tensors of blocks that are laid out like the parameters (values, gradients, a moment),
// put together on rank 0 from the pieces that the ranks hold.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/saving/whole_buckets.h"
#include "tessera/engine/host_block.h"

namespace tessera {

class WholeTensors {
 public:
  /// All ranks call it together. On ranks other than 0 there is nothing to see afterwards.
  WholeTensors(const ParameterAccess& access, const std::vector<ParameterBlock>& blocks);

  /// By global name, in host memory of this object.
  const std::map<std::string, ConstView>& by_name() const { return by_name_; }

 private:
  void look_into(const ParameterAccess& access, const ParameterBlock& block);
  void gather(const ParameterAccess& access, const ParameterBlock& block);
  /// A tensor to be filled.
  View whole(const std::string& name, DType dtype, const Shape& shape);
  void give(const ParameterAccess& access, const ParameterBlock& block, const Bucket& bucket,
            const View& memory);
  void take(const ParameterAccess& access, int from, DType dtype, const std::string& boxes);

  std::vector<HostBlock> own_;  ///< buckets: one rank has all tensors whole already
  std::map<std::string, Tensor> gathered_;
  std::map<std::string, ConstView> by_name_;
};

}  // namespace tessera
