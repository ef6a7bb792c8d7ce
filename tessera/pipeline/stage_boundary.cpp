#include "tessera/pipeline/stage_boundary.h"

#include <algorithm>
#include <map>

#include "tessera/pipeline/check.h"

namespace tessera {
namespace {

using std::size_t;

// The position of each stage's forward and input gradient of each microbatch in its rank's list.
class Places {
 public:
  Places(const PipelineShape& shape, const std::vector<Schedule>& schedules)
      : microbatches_(shape.microbatches),
        forward_(static_cast<size_t>(shape.stages() * shape.microbatches)),
        backward_(forward_.size()) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const Schedule& list = schedules[static_cast<size_t>(rank)];
      for (size_t step = 0; step < list.size(); ++step)
        if (list[step].kind != ActionKind::backward_weight)
          at(list[step], stage_at(shape, {rank, list[step].chunk})) = static_cast<int>(step);
    }
  }

  /// The position of the same action on a stage.
  int& at(const Action& action, int stage) {
    const int index = stage * microbatches_ + action.microbatch;
    return (is_forward(action.kind) ? forward_ : backward_)[static_cast<size_t>(index)];
  }

 private:
  int microbatches_;
  std::vector<int> forward_, backward_;
};

std::vector<BoundaryChannel> channels_without_room(const PipelineShape& shape,
                                                   const std::vector<Schedule>& schedules) {
  Places places(shape, schedules);
  std::map<std::pair<int, int>, BoundaryChannel> channels;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const Schedule& list = schedules[static_cast<size_t>(rank)];
    for (size_t step = 0; step < list.size(); ++step) {
      const Action& action = list[step];
      if (action.kind == ActionKind::backward_weight) continue;
      const int next = stage_at(shape, {rank, action.chunk}) + (is_forward(action.kind) ? 1 : -1);
      if (next < 0 || next >= shape.stages()) continue;
      const std::pair key(rank, place_of(shape, next).rank);
      channels[key].messages.push_back({static_cast<int>(step), places.at(action, next)});
    }
  }
  std::vector<BoundaryChannel> all;
  for (auto& [key, channel] : channels) {
    channel.from = key.first;
    channel.to = key.second;
    all.push_back(std::move(channel));
  }
  return all;
}

// By step of a list: the message that it produces or uses; -1: none.
std::vector<int> by_step(const BoundaryChannel& channel, int BoundaryMessage::*step, size_t steps) {
  std::vector<int> messages(steps, -1);
  for (size_t n = 0; n < channel.messages.size(); ++n)
    messages[static_cast<size_t>(channel.messages[n].*step)] = static_cast<int>(n);
  return messages;
}

// The number of buffers from the oldest unused message to the newest one with a posted recv, which
// is posted at most one step before it is needed. A message from a rank to itself exists when it is
// produced.
int window_of(const BoundaryChannel& channel, size_t steps) {
  const std::vector<int> needs = by_step(channel, &BoundaryMessage::used, steps);
  const std::vector<int> comes =
      channel.is_local() ? by_step(channel, &BoundaryMessage::made, steps) : needs;
  std::vector<bool> used(channel.messages.size());
  int asked = 0, oldest = 0, window = 1;
  for (size_t step = 0; step < steps; ++step) {
    asked = std::max(asked, comes[step] + 1);
    if (!channel.is_local() && step + 1 < steps) asked = std::max(asked, comes[step + 1] + 1);
    window = std::max(window, asked - oldest);
    if (needs[step] >= 0) used[static_cast<size_t>(needs[step])] = true;
    while (oldest < std::ssize(used) && used[static_cast<size_t>(oldest)]) ++oldest;
  }
  return window;
}

// Whether, for all n, the recv of message n - outgoing is posted before message n is started.
bool suffices(int outgoing, const std::vector<double>& asked, const std::vector<double>& begun) {
  for (size_t n = static_cast<size_t>(outgoing); n < begun.size(); ++n)
    if (asked[n - static_cast<size_t>(outgoing)] > begun[n]) return false;
  return true;
}

// The timeline is an order of events in which every wait for a buffer is over before the next
// action begins, so waits for buffers cannot form a cycle.
int outgoing_of(const BoundaryChannel& channel, const Timeline& timeline) {
  const std::vector<TimedAction>& sender = timeline.ranks[static_cast<size_t>(channel.from)];
  const std::vector<TimedAction>& receiver = timeline.ranks[static_cast<size_t>(channel.to)];
  std::vector<double> asked, begun;
  for (const int step : asked_at(channel))
    asked.push_back(step == 0 ? 0 : receiver[static_cast<size_t>(step) - 1].end);
  for (const BoundaryMessage& message : channel.messages)
    begun.push_back(sender[static_cast<size_t>(message.made)].begin);
  int outgoing = channel.outgoing;
  while (!suffices(outgoing, asked, begun)) ++outgoing;
  return outgoing;
}

}  // namespace

std::vector<int> asked_at(const BoundaryChannel& channel) {
  std::vector<int> steps(channel.messages.size());
  for (size_t n = steps.size(); n-- > 0;) {
    steps[n] = channel.messages[n].used;
    if (n + 1 < steps.size()) steps[n] = std::min(steps[n], steps[n + 1]);
  }
  return steps;
}

std::vector<BoundaryChannel> boundary_channels(const PipelineShape& shape,
                                               const std::vector<Schedule>& schedules) {
  const Timeline timeline = check_schedules(shape, schedules).timeline;
  std::vector<BoundaryChannel> channels = channels_without_room(shape, schedules);
  for (BoundaryChannel& channel : channels) {
    channel.window = window_of(channel, schedules[static_cast<size_t>(channel.to)].size());
    if (!channel.is_local()) channel.outgoing = outgoing_of(channel, timeline);
  }
  return channels;
}

}  // namespace tessera
