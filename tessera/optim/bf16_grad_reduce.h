// Sums over ranks of numbers that travel in bf16 and are added in f32: a number is rounded once
// when it is sent, and a sum once when it is sent on, however many ranks there are.
#pragma once

#include "tessera/parallel/context.h"

namespace tessera {

class Bf16GradReduce {
 public:
  /// `out` and `in`: bf16, room for what is summed at once.
  Bf16GradReduce(Kernels& kernels, const View& out, const View& in)
      : kernels_(kernels), out_(out), in_(in) {}

  /// own [n] (+)= this rank's part of the sum of `parts` [ranks, n]; it may be that part of them.
  void scatter(Communicator& group, const View& own, const View& parts, bool accumulate,
               Stream& stream) const;
  /// x = its sum over the ranks, which divide it evenly: the same bits everywhere.
  void all(Communicator& group, const View& x, Stream& stream) const;

 private:
  void add_rows(Stream& stream, const View& own, const View& rows, bool accumulate) const;
  static View like(const View& memory, const View& parts);

  Kernels& kernels_;
  View out_;
  View in_;
};

}  // namespace tessera
