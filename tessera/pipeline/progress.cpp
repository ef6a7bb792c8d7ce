#include "tessera/pipeline/progress.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

using std::size_t;

// A message: its index on a channel; -1: none.
struct Place {
  int channel = -1;
  int message = 0;
};

// The messages that a step receives and sends.
struct StepBoundaries {
  Place in, out;
};

std::vector<std::vector<StepBoundaries>> step_boundaries(
    const std::vector<Schedule>& schedules, const std::vector<BoundaryChannel>& channels) {
  std::vector<std::vector<StepBoundaries>> boundaries;
  for (const Schedule& schedule : schedules) boundaries.emplace_back(schedule.size());
  for (size_t i = 0; i < channels.size(); ++i) {
    if (channels[i].is_local()) continue;  // produced and used in the order of one list
    for (size_t n = 0; n < channels[i].messages.size(); ++n) {
      const BoundaryMessage& message = channels[i].messages[n];
      const Place place{static_cast<int>(i), static_cast<int>(n)};
      const auto from = static_cast<size_t>(channels[i].from),
                 to = static_cast<size_t>(channels[i].to);
      boundaries[from][static_cast<size_t>(message.made)].out = place;
      boundaries[to][static_cast<size_t>(message.used)].in = place;
    }
  }
  return boundaries;
}

// The simultaneous progress of all ranks through their lists.
class Walk {
 public:
  Walk(const std::vector<Schedule>& schedules, const std::vector<BoundaryChannel>& channels)
      : channels_(channels),
        boundaries_(step_boundaries(schedules, channels)),
        next_(schedules.size()),
        states_(channels.size()) {}

  std::vector<RankStep> run() {
    std::vector<RankStep> order;
    for (bool moved = true; std::exchange(moved, false);)
      for (size_t rank = 0; rank < next_.size(); ++rank)
        while (advance(rank)) {
          order.push_back({static_cast<int>(rank), static_cast<int>(next_[rank]) - 1});
          moved = true;
        }
    for (size_t rank = 0; rank < next_.size(); ++rank)
      check(next_[rank] == boundaries_[rank].size(),
            "the ranks wait for each other for ever: rank {} for {}", rank, wait_of(rank));
    return order;
  }

 private:
  struct ChannelState {
    int asked = 0, sent = 0;
    int received() const { return std::min(asked, sent); }
  };

  ChannelState& state_of(const Place& place) { return states_[static_cast<size_t>(place.channel)]; }

  bool has_input(const Place& in) {
    if (in.channel < 0) return true;
    ChannelState& state = state_of(in);
    state.asked = std::max(state.asked, in.message + 1);
    return state.received() > in.message;
  }
  bool has_room(const Place& out) {
    if (out.channel < 0) return true;
    return state_of(out).received() >
           out.message - channels_[static_cast<size_t>(out.channel)].outgoing;
  }

  bool advance(size_t rank) {
    if (next_[rank] == boundaries_[rank].size()) return false;
    const StepBoundaries& step = boundaries_[rank][next_[rank]];
    if (!has_input(step.in) || !has_room(step.out)) return false;
    if (step.out.channel >= 0) state_of(step.out).sent = step.out.message + 1;
    ++next_[rank];
    return true;
  }

  std::string wait_of(size_t rank) {
    if (next_[rank] == boundaries_[rank].size()) return "nothing";
    const auto [in, out] = boundaries_[rank][next_[rank]];
    if (!has_input(in))
      return fmt::format("message {} from rank {}", in.message,
                         channels_[static_cast<size_t>(in.channel)].from);
    const BoundaryChannel& channel = channels_[static_cast<size_t>(out.channel)];
    return fmt::format("rank {} to take message {}, to have room for another one", channel.to,
                       out.message - channel.outgoing);
  }

  const std::vector<BoundaryChannel>& channels_;
  std::vector<std::vector<StepBoundaries>> boundaries_;
  std::vector<size_t> next_;  ///< by rank
  std::vector<ChannelState> states_;
};

}  // namespace

std::vector<RankStep> order_of_steps(const std::vector<Schedule>& schedules,
                                     const std::vector<BoundaryChannel>& channels) {
  return Walk(schedules, channels).run();
}

std::vector<std::vector<int>> last_waited_for(const std::vector<Schedule>& schedules,
                                              const std::vector<BoundaryChannel>& channels,
                                              int rank) {
  const std::vector<std::vector<StepBoundaries>> boundaries = step_boundaries(schedules, channels);
  std::vector<std::vector<int>> asked;  // by channel and message
  for (const BoundaryChannel& channel : channels) asked.push_back(asked_at(channel));
  std::vector<std::vector<int>> last;
  for (const Schedule& schedule : schedules) last.emplace_back(schedule.size(), -1);
  const auto at = [&](int of, int step) {
    return step < 0 ? -1 : last[static_cast<size_t>(of)][static_cast<size_t>(step)];
  };
  for (const RankStep& each : order_of_steps(schedules, channels)) {
    int waits_for = each.rank == rank ? each.step : at(each.rank, each.step - 1);
    const auto [in, out] =
        boundaries[static_cast<size_t>(each.rank)][static_cast<size_t>(each.step)];
    if (in.channel >= 0) {
      const BoundaryChannel& channel = channels[static_cast<size_t>(in.channel)];
      const int made = channel.messages[static_cast<size_t>(in.message)].made;
      waits_for = std::max(waits_for, at(channel.from, made));
    }
    if (out.channel >= 0 && out.message >= channels[static_cast<size_t>(out.channel)].outgoing) {
      const BoundaryChannel& channel = channels[static_cast<size_t>(out.channel)];
      const auto freed = static_cast<size_t>(out.message - channel.outgoing);
      waits_for =
          std::max(waits_for, at(channel.to, asked[static_cast<size_t>(out.channel)][freed] - 1));
    }
    last[static_cast<size_t>(each.rank)][static_cast<size_t>(each.step)] = waits_for;
  }
  return last;
}

}  // namespace tessera
