#include "tessera/pipeline/search.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "tessera/base/check.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

using std::size_t;

constexpr double kNever = std::numeric_limits<double>::infinity();

// The policy by which ranks choose their next action.
struct Policy {
  std::vector<int> ahead;      ///< by rank: maximum lead of forwards over backwards
  bool forward_first = false;  ///< preference if both are possible
  /// A rank with this many pending weight gradients computes one before its next forward. Otherwise
  /// they are delayed until there is nothing else to do, or no memory.
  int most_weights = std::numeric_limits<int>::max();
};

// The state of one rank in the simulation.
struct RankState {
  Schedule list;
  double free = 0;       ///< when its current action ends
  bool blocked = false;  ///< nothing that it waits for has started
  int forwards = 0, inputs = 0, weights = 0;
  int held() const { return forwards - weights; }
};

// Simulates all ranks in order of time: the rank that is free first chooses next. Everything that
// could be ready for it by then has been decided before.
class Simulation {
 public:
  /// Schedules that take as long as `bound` are abandoned.
  Simulation(const PipelineShape& shape, const StageTimes& times, int memory_limit,
             const Policy& policy, double bound)
      : shape_(shape),
        times_(times),
        limit_(memory_limit),
        policy_(policy),
        bound_(bound),
        ranks_(static_cast<size_t>(shape.ranks)),
        forward_(ranks_.size(),
                 std::vector<double>(static_cast<size_t>(shape.microbatches), kNever)),
        backward_(forward_) {}

  /// The length of the schedules; kNever: too long.
  double run() {
    double length = 0;
    for (int rank = 0; rank < shape_.ranks; ++rank) next_.push({0, rank});
    while (!next_.empty()) {
      const int rank = next_.top().second;
      next_.pop();
      decide(rank);
      if (at(rank).free + work_left(rank) >= bound_) return kNever;
      length = std::max(length, at(rank).free);
    }
    check(all_done(), "the search left all ranks waiting for each other");
    return length;
  }
  /// The number of actions simulated.
  std::int64_t actions() const { return actions_; }
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

  double work_left(int rank) {
    const RankState& state = at(rank);
    const ActionTimes& each = times(rank);
    return (shape_.microbatches - state.forwards) * each.forward +
           (shape_.microbatches - state.inputs) * each.backward_input +
           (shape_.microbatches - state.weights) * each.backward_weight;
  }

  // The earliest start of the rank's next forward and next input gradient, as far as it is known.
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
    state.blocked = next == kNever;
    if (state.blocked) return;
    state.free = next;
    next_.push({next, rank});
  }

  // The rank may have waited for an action that another rank has just started.
  void unblock(int rank) {
    if (rank < 0 || rank >= shape_.ranks || !at(rank).blocked) return;
    at(rank).blocked = false;
    next_.push({at(rank).free, rank});
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
    ++actions_;
    next_.push({state.free, rank});
    unblock(rank - 1);
    unblock(rank + 1);
  }

  const PipelineShape& shape_;
  const StageTimes& times_;
  int limit_;
  const Policy& policy_;
  double bound_;
  std::int64_t actions_ = 0;
  using Turn = std::pair<double, int>;  ///< time and rank
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> next_;
  std::vector<RankState> ranks_;
  std::vector<std::vector<double>> forward_, backward_;  ///< end times
};

// The best schedules so far, and the remaining budget.
class Best {
 public:
  Best(const PipelineShape& shape, const StageTimes& times, int memory_limit, std::int64_t budget)
      : shape_(shape), times_(times), limit_(memory_limit), budget_(budget) {
    std::vector<Schedule> known = make_schedules(shape, zero_bubble_h1);
    const ScheduleReport report = check_schedules(shape, known, times);
    least_ = report.lower_bound;
    if (std::ranges::max(report.in_flight) > memory_limit) return;
    length_ = report.timeline.length;
    lists_ = std::move(known);
  }

  /// The length of the schedules of this policy if it is below `bound`, otherwise kNever.
  double offer(const Policy& policy, double bound) {
    if (is_over()) return kNever;
    Simulation simulation(shape_, times_, limit_, policy, bound * (1 - kEqual));
    const double length = simulation.run();
    budget_ -= simulation.actions();
    if (length >= length_) return length;
    length_ = length;
    lists_ = std::move(simulation).lists();
    return length;
  }
  /// Whether the best possible length has been reached, or the budget is spent.
  bool is_over() const {
    return !lists_.empty() && (budget_ <= 0 || length_ <= least_ * (1 + kEqual));
  }
  std::vector<Schedule> take() && { return std::move(lists_); }

 private:
  static constexpr double kEqual = 1e-12;

  const PipelineShape& shape_;
  const StageTimes& times_;
  int limit_;
  std::int64_t budget_;  ///< actions
  double least_ = 0;     ///< no schedule is shorter
  double length_ = kNever;
  std::vector<Schedule> lists_;
};

// Hill climbing: changes the lead of one rank at a time, as long as that helps.
void climb(Best& best, Policy policy, double length, int memory_limit) {
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    bool better = false;
    for (int& ahead : policy.ahead)
      for (const int step : {1, -1, 2, -2}) {
        if (best.is_over()) return;
        const int before = ahead;
        ahead = std::clamp(ahead + step, 1, memory_limit);
        const double other = ahead == before ? kNever : best.offer(policy, length);
        if (other < kNever) {
          length = other;
          better = true;
        } else {
          ahead = before;
        }
      }
    if (!better) return;
  }
}

// The starting points of the climbs.
std::vector<Policy> first_policies(const PipelineShape& shape, int memory_limit) {
  std::vector<Policy> policies;
  for (int extra = 0; extra < std::max(1, memory_limit); extra = 2 * extra + 1)
    for (const bool forward_first : {false, true})
      for (const int most_weights : {1, 2, shape.ranks, std::numeric_limits<int>::max()}) {
        Policy& policy = policies.emplace_back(Policy{{}, forward_first, most_weights});
        for (int rank = 0; rank < shape.ranks; ++rank)
          policy.ahead.push_back(std::clamp(shape.ranks - rank + extra, 1, memory_limit));
      }
  return policies;
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
                                       int memory_limit, std::int64_t budget) {
  check(shape.chunks == 1 && memory_limit >= 1,
        "a schedule is searched for one chunk on a rank and a limit of at least 1, got {} and {}",
        shape.chunks, memory_limit);
  Best best(shape, times, memory_limit, budget);
  struct Start {
    Policy policy;
    double length;
  };
  std::vector<Start> starts;
  for (const Policy& policy : first_policies(shape, memory_limit))
    starts.push_back({policy, best.offer(policy, kNever)});
  std::ranges::stable_sort(starts, {}, &Start::length);  // best ones first
  for (const Start& start : starts) climb(best, start.policy, start.length, memory_limit);
  return std::move(best).take();
}

}  // namespace tessera
