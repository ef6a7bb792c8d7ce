#include "tessera/optim/bf16_grad_reduce.h"

#include <algorithm>

namespace tessera {

View Bf16GradReduce::like(const View& memory, const View& parts) {
  return memory.slice(0, 0, parts.numel()).reshape(parts.shape());
}

void Bf16GradReduce::scatter(Communicator& group, const View& own, const View& parts,
                             bool accumulate, Stream& stream) const {
  if (group.size() == 1) {
    if (own.raw() != parts.raw()) kernels_.column_sum(stream, own, parts, accumulate);
    return;
  }
  View sent = parts;
  if (parts.dtype() != DType::bf16) {
    sent = like(out_, parts);
    kernels_.copy(stream, sent, parts);
  }
  const View received = like(in_, parts);
  group.all_to_all(received, sent, stream)->wait(stream);
  add_rows(stream, own, received, accumulate);
}

// Adds a few ranks at a time in f32: column sums of many rows use a workspace that other streams
// may be using.
void Bf16GradReduce::add_rows(Stream& stream, const View& own, const View& rows,
                              bool accumulate) const {
  const std::int64_t at_once = own.dtype() == DType::bf16 ? rows.dim(0) : 64;
  for (std::int64_t first = 0; first < rows.dim(0); first += at_once) {
    const std::int64_t count = std::min(at_once, rows.dim(0) - first);
    kernels_.column_sum(stream, own, rows.slice(0, first, count), accumulate || first > 0);
  }
}

void Bf16GradReduce::all(Communicator& group, const View& x, Stream& stream) const {
  if (group.size() == 1) return;
  const View parts = x.reshape({group.size(), x.numel() / group.size()});
  const auto own_of = [&](const View& all) {
    return all.slice(0, group.rank(), 1).reshape({all.dim(1)});
  };
  scatter(group, own_of(parts), parts, false, stream);
  const View all = x.dtype() == DType::bf16 ? parts : like(out_, parts);
  if (all.raw() != parts.raw()) kernels_.copy(stream, own_of(all), own_of(parts));
  group.all_gather(all, own_of(all), stream)->wait(stream);
  if (all.raw() != parts.raw()) kernels_.copy(stream, parts, all);
}

}  // namespace tessera
