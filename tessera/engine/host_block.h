// A block of device memory as the host can read and write it: the block itself on the CPU, a copy
// on a GPU.
#pragma once

#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class HostBlock {
 public:
  HostBlock(Context& context, const View& block);

  const View& view() const { return view_; }
  /// The device's values into the view; waits for work that was put on the stream before.
  void download();
  /// The view's values to the device; waits until they are there.
  void upload();

 private:
  void copy(void* to, const void* from);

  Context& context_;
  View block_;
  Tensor copy_;  ///< empty on the CPU
  View view_;
};

/// The block's values, for reading only.
inline HostBlock downloaded(Context& context, const View& block) {
  HostBlock host(context, block);
  host.download();
  return host;
}

}  // namespace tessera
