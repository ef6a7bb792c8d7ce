#include "tessera/train/consistency_check.h"

#include <algorithm>

#include "tessera/engine/host_block.h"

namespace tessera {

ConsistencyCheck::ConsistencyCheck(Session& session) : session_(session) {
  if (session.context().mesh.world().size() > 1)
    words_ = session.memory().allocate(MemoryUse::data, DType::f64, {kLimbs});
  static_assert(kWords <= kLimbs);
}

void ConsistencyCheck::share(Communicator& ranks, ReduceOp op, std::span<double> values) {
  Context& context = session_.context();
  HostBlock host(context, words_.view());
  std::fill_n(host.view().data<double>(), kLimbs, 0.0);
  std::copy(values.begin(), values.end(), host.view().data<double>());
  host.upload();
  ranks.all_reduce(words_.view(), op, context.stream)->wait(context.stream);
  host.download();
  std::copy_n(host.view().data<double>(), values.size(), values.begin());
}

ConsistencyCheck::Words ConsistencyCheck::largest(const Words& own) {
  if (!words_) return own;
  Words all = own;
  share(session_.context().mesh.world(), ReduceOp::max, all);
  return all;
}

// In parts of 16 bits, whose sums a double holds exactly.
std::uint64_t ConsistencyCheck::sum_over_data_ranks(std::uint64_t own) {
  if (!words_) return own;
  constexpr int kBits = 64 / kLimbs;
  std::array<double, kLimbs> limbs{};
  for (std::size_t i = 0; i < kLimbs; ++i)
    limbs[i] = static_cast<double>(own >> (kBits * i) & ((1u << kBits) - 1));
  share(session_.context().mesh.data(), ReduceOp::sum, limbs);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kLimbs; ++i)
    sum += static_cast<std::uint64_t>(limbs[i]) << (kBits * i);
  return sum;
}

}  // namespace tessera
