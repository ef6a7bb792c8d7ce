#include "tessera/pipeline/search.h"

#include <algorithm>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

using std::size_t;

constexpr double kNever = std::numeric_limits<double>::infinity();

// How ranks decide what to do next.
struct Policy {
  std::vector<int> ahead;      ///< by rank: how far forwards may be ahead of backwards
  bool forward_first = false;  ///< where both could be done
  /// A rank that has this many weight gradients to do does one before it goes forward; else they
  /// wait until there is nothing other to do, or no memory.
  int most_weights = std::numeric_limits<int>::max();
};

// One rank on its way through the step.
struct RankState {
  Schedule list;
  double free = 0;       ///< when it has done what it has begun
  bool blocked = false;  ///< nothing that it waits for has been begun
  int forwards = 0, inputs = 0, weights = 0;
  int held() const { return forwards - weights; }
};

// Runs all ranks in the order of time: whoever is free first decides, and all that could be ready
// for it by then has been decided.
class Simulation {
 public:
  Simulation(const PipelineShape& shape, const StageTimes& times, int memory_limit,
             const Policy& policy)
      : shape_(shape),
        times_(times),
        limit_(memory_limit),
        policy_(policy),
        ranks_(static_cast<size_t>(shape.ranks)),
        forward_(ranks_.size(),
                 std::vector<double>(static_cast<size_t>(shape.microbatches), kNever)),
        backward_(forward_) {}

  /// The lists, and how long they take.
  double run() {
    double length = 0;
    for (int rank = earliest(); rank >= 0; rank = earliest()) {
      decide(rank);
      length = std::max(length, at(rank).free);
    }
    return length;
  }
  std::vector<Schedule> lists() && {
    std::vector<Schedule> all;
    for (RankState& rank : ranks_) all.push_back(std::move(rank.list));
    return all;
  }

 private:
  RankState& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  double& done(std::vector<std::vector<double>>& of, int rank, int microbatch) {
    return of[static_cast<size_t>(rank)][static_cast<size_t>(microbatch)];
  }
  const ActionTimes& times(int rank) const {
    return times_.size() == 1 ? times_.front() : times_[static_cast<size_t>(rank)];
  }

  int earliest() {
    int found = -1;
    for (int rank = 0; rank < shape_.ranks; ++rank)
      if (at(rank).weights < shape_.microbatches && !at(rank).blocked &&
          (found < 0 || at(rank).free < at(found).free))
        found = rank;
    check(found >= 0 || all_done(), "the search left all ranks waiting for each other");
    return found;
  }

  // When the rank's next forward and next input gradient could begin, as far as is known.
  double forward_ready(int rank) {
    const RankState& state = at(rank);
    const bool may = state.forwards < shape_.microbatches && state.held() < limit_ &&
                     state.forwards - state.inputs < policy_.ahead[static_cast<size_t>(rank)];
    if (!may) return kNever;
    return rank == 0 ? 0 : done(forward_, rank - 1, state.forwards);
  }
  double input_ready(int rank) {
    const RankState& state = at(rank);
    if (state.inputs == state.forwards) return kNever;
    return rank == shape_.ranks - 1 ? done(forward_, rank, state.inputs)
                                    : done(backward_, rank + 1, state.inputs);
  }

  void decide(int rank) {
    RankState& state = at(rank);
    const double now = state.free;
    const double forward = forward_ready(rank), input = input_ready(rank);
    const int waiting = state.inputs - state.weights;
    const bool weight_due = waiting >= policy_.most_weights;
    const bool go_forward = forward <= now && !weight_due && (policy_.forward_first || input > now);
    if (go_forward) return begin(rank, ActionKind::forward);
    if (input <= now) return begin(rank, ActionKind::backward_input);
    if (waiting > 0) return begin(rank, ActionKind::backward_weight);
    const double next = std::min(forward, input);
    if (next < kNever)
      state.free = next;
    else
      state.blocked = true;
  }

  bool all_done() const {
    return std::ranges::all_of(
        ranks_, [&](const RankState& rank) { return rank.weights == shape_.microbatches; });
  }

  void begin(int rank, ActionKind kind) {
    RankState& state = at(rank);
    int& count = kind == ActionKind::forward          ? state.forwards
                 : kind == ActionKind::backward_input ? state.inputs
                                                      : state.weights;
    state.list.push_back({kind, count});
    state.free += times(rank).of(kind);
    if (kind == ActionKind::forward) done(forward_, rank, count) = state.free;
    if (kind == ActionKind::backward_input) done(backward_, rank, count) = state.free;
    ++count;
    for (RankState& other : ranks_) other.blocked = false;  // it may wait for this
  }

  const PipelineShape& shape_;
  const StageTimes& times_;
  int limit_;
  const Policy& policy_;
  std::vector<RankState> ranks_;
  std::vector<std::vector<double>> forward_, backward_;  ///< when they are done
};

// The best lists so far.
class Best {
 public:
  Best(const PipelineShape& shape, const StageTimes& times, int memory_limit)
      : shape_(shape), times_(times), limit_(memory_limit) {}

  /// Whether it is shorter than all before.
  bool offer(const Policy& policy) {
    Simulation simulation(shape_, times_, limit_, policy);
    const double length = simulation.run();
    if (length >= length_ * (1 - 1e-12)) return false;
    length_ = length;
    lists_ = std::move(simulation).lists();
    return true;
  }
  void offer(std::vector<Schedule> lists) {
    for (const Schedule& list : lists)
      if (slots_needed(list) > limit_) return;
    const double length = check_schedules(shape_, lists, times_).timeline.length;
    if (length >= length_) return;
    length_ = length;
    lists_ = std::move(lists);
  }
  std::vector<Schedule> take() && { return std::move(lists_); }

 private:
  const PipelineShape& shape_;
  const StageTimes& times_;
  int limit_;
  double length_ = kNever;
  std::vector<Schedule> lists_;
};

// One rank's reach at a time, as long as that helps.
void climb(Best& best, Policy policy, int memory_limit) {
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    bool better = false;
    for (int& ahead : policy.ahead)
      for (const int step : {1, -1, 2, -2}) {
        const int before = ahead;
        ahead = std::clamp(ahead + step, 1, memory_limit);
        if (ahead != before && best.offer(policy))
          better = true;
        else
          ahead = before;
      }
    if (!better) return;
  }
}

}  // namespace

StageTimes times_of(std::span<const double> numbers, int stages) {
  if (numbers.empty()) return {{}};
  const size_t count = numbers.size() / 3;
  check(numbers.size() % 3 == 0 && (count == 1 || count == static_cast<size_t>(stages)),
        "{} times for {} stages, expected 3 or {}", numbers.size(), stages, 3 * stages);
  StageTimes times;
  for (size_t i = 0; i < numbers.size(); i += 3)
    times.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
  return times;
}

std::vector<Schedule> search_schedules(const PipelineShape& shape, const StageTimes& times,
                                       int memory_limit) {
  check(shape.chunks == 1 && memory_limit >= 1,
        "a schedule is searched for one chunk on a rank and a limit of at least 1, got {} and {}",
        shape.chunks, memory_limit);
  Best best(shape, times, memory_limit);
  best.offer(schedules_of(shape, zero_bubble_h1));
  for (int extra = 0; extra < std::max(1, memory_limit); extra = 2 * extra + 1)
    for (const bool forward_first : {false, true})
      for (const int most_weights : {1, 2, shape.ranks, std::numeric_limits<int>::max()}) {
        Policy policy{{}, forward_first, most_weights};
        for (int rank = 0; rank < shape.ranks; ++rank)
          policy.ahead.push_back(std::clamp(shape.ranks - rank + extra, 1, memory_limit));
        best.offer(policy);
        climb(best, policy, memory_limit);
      }
  return std::move(best).take();
}

}  // namespace tessera
