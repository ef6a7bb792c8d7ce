#include "tessera/pipeline/channels.h"

#include <set>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/tensor/memory.h"

namespace tessera {
namespace {

constexpr int kSender = 0;
constexpr int kReceiver = 1;

using Pair = std::pair<int, int>;  // from, to

// The (from, to) pairs between ranks of consecutive stages, in both directions.
std::set<Pair> neighbours(const PipelineShape& shape) {
  std::set<Pair> pairs;
  for (int stage = 0; stage + 1 < shape.stages(); ++stage) {
    const int a = place_of(shape, stage).rank, b = place_of(shape, stage + 1).rank;
    if (a == b) continue;
    pairs.insert({a, b});
    pairs.insert({b, a});
  }
  return pairs;
}

// Divides the pairs into rounds without a common rank, so that one split creates all groups of a
// round.
std::vector<std::vector<Pair>> rounds_of(std::set<Pair> pairs) {
  std::vector<std::vector<Pair>> rounds;
  while (!pairs.empty()) {
    std::set<int> busy;
    std::vector<Pair> round;
    for (const Pair& pair : pairs)
      if (!busy.contains(pair.first) && !busy.contains(pair.second)) {
        busy.insert({pair.first, pair.second});
        round.push_back(pair);
      }
    for (const Pair& pair : round) pairs.erase(pair);
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace

PipelineChannels::PipelineChannels(Communicator& pipeline, const PipelineShape& shape,
                                   Stream& stream)
    : rank_(pipeline.rank()) {
  check(pipeline.size() == shape.ranks, "a group of {} ranks for a pipeline of {}", pipeline.size(),
        shape.ranks);
  for (const std::vector<Pair>& round : rounds_of(neighbours(shape))) {
    int colour = shape.ranks + rank_;  // for ranks in no pair
    const Pair* mine = nullptr;
    for (const Pair& pair : round)
      if (pair.first == rank_ || pair.second == rank_) mine = &pair;
    if (mine) colour = mine->first;
    const bool sends = mine && mine->first == rank_;
    std::shared_ptr<Communicator> group = pipeline.split(colour, sends ? kSender : kReceiver);
    if (!mine) continue;
    greet(*group, stream);
    (sends ? to_[mine->second] : from_[mine->first]) = std::move(group);
  }
}

void PipelineChannels::greet(Communicator& group, Stream& stream) {
  const Tensor word = Memory(stream.device()).allocate(MemoryUse::data, DType::u8, {64});
  const WorkHandle work = group.rank() == kSender ? group.send(word.view(), kReceiver, stream)
                                                  : group.recv(word.view(), kSender, stream);
  work->wait(stream);
  stream.synchronize();  // before the memory is freed
}

Communicator& PipelineChannels::at(const Groups& channels, int peer) const {
  const auto found = channels.find(peer);
  check(found != channels.end(), "pipeline ranks {} and {} are no neighbours", rank_, peer);
  return *found->second;
}

WorkHandle PipelineChannels::send(ConstView x, int to, Stream& stream) {
  return at(to_, to).send(x, kReceiver, stream);
}

WorkHandle PipelineChannels::recv(View x, int from, Stream& stream) {
  return at(from_, from).recv(x, kSender, stream);
}

}  // namespace tessera
