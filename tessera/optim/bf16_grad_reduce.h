// bf16 gradient communication: reductions that send bf16 and add in f32. A value is rounded once
// when it is sent, and a sum once when it is sent on, regardless of the number of ranks.
#pragma once

#include "tessera/parallel/context.h"

namespace tessera {

class Bf16GradReduce {
 public:
  /// `out` and `in`: bf16 buffers, large enough for the largest sum.
  Bf16GradReduce(Kernels& kernels, const View& out, const View& in)
      : kernels_(kernels), out_(out), in_(in) {}

  /// Reduce-scatter: own [n] (+)= this rank's part of the sum of `parts` [ranks, n]. `own` may be
  /// that part of `parts`.
  void scatter(Communicator& group, const View& own, const View& parts, bool accumulate,
               Stream& stream) const;
  /// All-reduce: x = the sum of x over the ranks, each of which reduces an equal part. All ranks
  /// get the same bits.
  void all(Communicator& group, const View& x, Stream& stream) const;

 private:
  void add_rows(Stream& stream, const View& own, const View& rows, bool accumulate) const;
  static View like(const View& memory, const View& parts);

  Kernels& kernels_;
  View out_;
  View in_;
};

}  // namespace tessera
