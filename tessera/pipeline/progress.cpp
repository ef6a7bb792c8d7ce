#include "tessera/pipeline/progress.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

using std::size_t;

// A message: the how-manieth of which link; no link: none.
struct Place {
  int link = -1;
  int message = 0;
};

// What a step takes from another rank and what it gives to one.
struct StepBoundaries {
  Place in, out;
};

std::vector<std::vector<StepBoundaries>> step_boundaries(const std::vector<Schedule>& schedules,
                                                         const std::vector<BoundaryLink>& links) {
  std::vector<std::vector<StepBoundaries>> boundaries;
  for (const Schedule& schedule : schedules) boundaries.emplace_back(schedule.size());
  for (size_t i = 0; i < links.size(); ++i) {
    if (links[i].is_local()) continue;  // made and used in the order of one list
    for (size_t n = 0; n < links[i].messages.size(); ++n) {
      const BoundaryMessage& message = links[i].messages[n];
      const Place place{static_cast<int>(i), static_cast<int>(n)};
      const auto from = static_cast<size_t>(links[i].from), to = static_cast<size_t>(links[i].to);
      boundaries[from][static_cast<size_t>(message.made)].out = place;
      boundaries[to][static_cast<size_t>(message.used)].in = place;
    }
  }
  return boundaries;
}

// All ranks on their way through their lists.
class Walk {
 public:
  Walk(const std::vector<Schedule>& schedules, const std::vector<BoundaryLink>& links)
      : links_(links),
        boundaries_(step_boundaries(schedules, links)),
        next_(schedules.size()),
        states_(links.size()) {}

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
  struct LinkState {
    int asked = 0, sent = 0;
    int received() const { return std::min(asked, sent); }
  };

  LinkState& state_of(const Place& place) { return states_[static_cast<size_t>(place.link)]; }

  bool has_input(const Place& in) {
    if (in.link < 0) return true;
    LinkState& state = state_of(in);
    state.asked = std::max(state.asked, in.message + 1);
    return state.received() > in.message;
  }
  bool has_room(const Place& out) {
    if (out.link < 0) return true;
    return state_of(out).received() > out.message - links_[static_cast<size_t>(out.link)].outgoing;
  }

  bool advance(size_t rank) {
    if (next_[rank] == boundaries_[rank].size()) return false;
    const StepBoundaries& step = boundaries_[rank][next_[rank]];
    if (!has_input(step.in) || !has_room(step.out)) return false;
    if (step.out.link >= 0) state_of(step.out).sent = step.out.message + 1;
    ++next_[rank];
    return true;
  }

  std::string wait_of(size_t rank) {
    if (next_[rank] == boundaries_[rank].size()) return "nothing";
    const auto [in, out] = boundaries_[rank][next_[rank]];
    if (!has_input(in))
      return fmt::format("message {} from rank {}", in.message,
                         links_[static_cast<size_t>(in.link)].from);
    const BoundaryLink& link = links_[static_cast<size_t>(out.link)];
    return fmt::format("rank {} to take message {}, to have room for another one", link.to,
                       out.message - link.outgoing);
  }

  const std::vector<BoundaryLink>& links_;
  std::vector<std::vector<StepBoundaries>> boundaries_;
  std::vector<size_t> next_;  ///< by rank
  std::vector<LinkState> states_;
};

}  // namespace

std::vector<RankStep> order_of_steps(const std::vector<Schedule>& schedules,
                                     const std::vector<BoundaryLink>& links) {
  return Walk(schedules, links).run();
}

std::vector<std::vector<int>> last_waited_for(const std::vector<Schedule>& schedules,
                                              const std::vector<BoundaryLink>& links, int rank) {
  const std::vector<std::vector<StepBoundaries>> boundaries = step_boundaries(schedules, links);
  std::vector<std::vector<int>> asked;  // by link and message
  for (const BoundaryLink& link : links) asked.push_back(asked_at(link));
  std::vector<std::vector<int>> last;
  for (const Schedule& schedule : schedules) last.emplace_back(schedule.size(), -1);
  const auto at = [&](int of, int step) {
    return step < 0 ? -1 : last[static_cast<size_t>(of)][static_cast<size_t>(step)];
  };
  for (const RankStep& each : order_of_steps(schedules, links)) {
    int waits_for = each.rank == rank ? each.step : at(each.rank, each.step - 1);
    const auto [in, out] =
        boundaries[static_cast<size_t>(each.rank)][static_cast<size_t>(each.step)];
    if (in.link >= 0) {
      const BoundaryLink& link = links[static_cast<size_t>(in.link)];
      const int made = link.messages[static_cast<size_t>(in.message)].made;
      waits_for = std::max(waits_for, at(link.from, made));
    }
    if (out.link >= 0 && out.message >= links[static_cast<size_t>(out.link)].outgoing) {
      const BoundaryLink& link = links[static_cast<size_t>(out.link)];
      const auto freed = static_cast<size_t>(out.message - link.outgoing);
      waits_for = std::max(waits_for, at(link.to, asked[static_cast<size_t>(out.link)][freed] - 1));
    }
    last[static_cast<size_t>(each.rank)][static_cast<size_t>(each.step)] = waits_for;
  }
  return last;
}

}  // namespace tessera
