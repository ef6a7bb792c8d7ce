// Host access to a block of device memory: the block itself on the CPU, a copy of it on a GPU.
#pragma once

#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class HostBlock {
 public:
  HostBlock(Context& context, const View& block);

  const View& view() const { return view_; }
  /// Copies the device's values into the view, after waiting for earlier work on the stream.
  void download();
  /// Copies the view's values to the device and waits.
  void upload();

 private:
  void copy(void* to, const void* from);

  Context& context_;
  View block_;
  Tensor copy_;  ///< empty on the CPU
  View view_;
};

/// A block's values, for reading only.
inline HostBlock downloaded(Context& context, const View& block) {
  HostBlock host(context, block);
  host.download();
  return host;
}

}  // namespace tessera
