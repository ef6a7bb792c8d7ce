// The interface of a model stage to the executor. Microbatches and activation buffers are indices
// here; only the stage accesses their contents.
#pragma once

#include "tessera/tensor/view.h"

namespace tessera {

class Stage {
 public:
  virtual ~Stage() = default;

  /// `in` comes from the previous stage (empty on the first), `out` goes to the next (empty on the
  /// last).
  virtual void forward(int microbatch, int buffer, View out, ConstView in) = 0;
  /// `d_out` comes from the next stage (empty on the last), `d_in` goes to the previous one (empty
  /// on the first).
  virtual void backward(int microbatch, int buffer, View d_in, ConstView d_out) = 0;
  virtual void backward_input(int microbatch, int buffer, View d_in, ConstView d_out) = 0;
  virtual void backward_weight(int microbatch, int buffer) = 0;
};

}  // namespace tessera
