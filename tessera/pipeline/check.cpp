#include "tessera/pipeline/check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

using std::size_t;

const char* to_string(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return "forward";
    case ActionKind::evaluate: return "evaluation";
    case ActionKind::backward: return "backward";
    case ActionKind::backward_input: return "input gradient";
    case ActionKind::backward_weight: return "weight gradient";
  }
  return "";
}

std::string text_of(const Action& action) {
  return fmt::format("the {} of microbatch {} on chunk {}", to_string(action.kind),
                     action.microbatch, action.chunk);
}

// The progress of a chunk: its next microbatch for each kind of action.
struct Counts {
  int forwards = 0, inputs = 0, weights = 0;
};

int& count_of(Counts& counts, ActionKind kind) {
  if (is_forward(kind)) return counts.forwards;
  return kind == ActionKind::backward_weight ? counts.weights : counts.inputs;
}

// Checks one rank's list on its own.
void check_list(const PipelineShape& shape, const Schedule& schedule, int rank) {
  std::vector<Counts> chunks(static_cast<size_t>(shape.chunks));
  for (const Action& action : schedule) {
    const auto fault = [&](const char* what) {
      fail("rank {}: {} {}", rank, text_of(action), what);
    };
    if (action.chunk < 0 || action.chunk >= shape.chunks || action.microbatch < 0 ||
        action.microbatch >= shape.microbatches)
      fault("is of none that there is");
    Counts& counts = chunks[static_cast<size_t>(action.chunk)];
    if (count_of(counts, action.kind) != action.microbatch) fault("is not in ascending order");
    if (is_backward(action.kind) && counts.forwards <= action.microbatch)
      fault("comes before its forward");
    if (action.kind == ActionKind::backward_weight && counts.inputs <= action.microbatch)
      fault("comes before its input gradient");
    count_of(counts, action.kind) += 1;
    if (action.kind == ActionKind::backward || action.kind == ActionKind::evaluate)
      counts.weights += 1;
    if (action.kind == ActionKind::evaluate) counts.inputs += 1;
  }
  for (const Counts& counts : chunks)
    check(counts.forwards == shape.microbatches && counts.inputs == shape.microbatches &&
              counts.weights == shape.microbatches,
          "rank {}: of {} microbatches, {} go forward, {} get input gradients and {} weight "
          "gradients",
          rank, shape.microbatches, counts.forwards, counts.inputs, counts.weights);
}

// The times at which a stage's forward and input gradient of a microbatch are done; nothing: not
// yet.
class Done {
 public:
  explicit Done(const PipelineShape& shape)
      : microbatches_(static_cast<size_t>(shape.microbatches)),
        forward_(static_cast<size_t>(shape.stages()) * microbatches_),
        backward_(forward_.size()) {}

  std::optional<double>& forward(int stage, int microbatch) {
    return forward_[index(stage, microbatch)];
  }
  std::optional<double>& backward(int stage, int microbatch) {
    return backward_[index(stage, microbatch)];
  }

 private:
  size_t index(int stage, int microbatch) const {
    return static_cast<size_t>(stage) * microbatches_ + static_cast<size_t>(microbatch);
  }

  size_t microbatches_;
  std::vector<std::optional<double>> forward_, backward_;
};

const ActionTimes& times_at(const StageTimes& times, int stage) {
  return times.size() == 1 ? times.front() : times[static_cast<size_t>(stage)];
}

// The time at which the input of an action is available; nothing: not known yet.
std::optional<double> ready_time(const PipelineShape& shape, Done& done, int stage,
                                 const Action& action) {
  if (is_forward(action.kind)) return stage == 0 ? 0.0 : done.forward(stage - 1, action.microbatch);
  if (action.kind == ActionKind::backward_weight) return done.backward(stage, action.microbatch);
  if (stage == shape.stages() - 1) return done.forward(stage, action.microbatch);
  return done.backward(stage + 1, action.microbatch);
}

Timeline timeline_of(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                     const StageTimes& times) {
  Timeline timeline;
  timeline.ranks.resize(schedules.size());
  Done done(shape);
  for (bool moved = true; std::exchange(moved, false);)
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const Schedule& list = schedules[static_cast<size_t>(rank)];
      std::vector<TimedAction>& past = timeline.ranks[static_cast<size_t>(rank)];
      while (past.size() < list.size()) {
        const Action& action = list[past.size()];
        const int stage = stage_at(shape, {rank, action.chunk});
        const std::optional<double> ready = ready_time(shape, done, stage, action);
        if (!ready) break;
        const double begin = std::max(*ready, past.empty() ? 0 : past.back().end);
        const double end = begin + times_at(times, stage).of(action.kind);
        past.push_back({action, begin, end});
        if (is_forward(action.kind)) done.forward(stage, action.microbatch) = end;
        if (is_backward(action.kind)) done.backward(stage, action.microbatch) = end;
        timeline.length = std::max(timeline.length, end);
        moved = true;
      }
    }
  for (size_t rank = 0; rank < schedules.size(); ++rank)
    if (const size_t stuck = timeline.ranks[rank].size(); stuck < schedules[rank].size())
      fail("the ranks wait for each other for ever: rank {} for what {} needs", rank,
           text_of(schedules[rank][stuck]));
  return timeline;
}

double work_of(const std::vector<TimedAction>& actions) {
  double work = 0;
  for (const TimedAction& each : actions) work += each.end - each.begin;
  return work;
}

// Lower bound: the first microbatch has to reach the rank, and the rank's last gradient has to
// travel back to the first stage, which then computes a weight gradient.
double least_length(const PipelineShape& shape, const Timeline& timeline,
                    const std::vector<Schedule>& schedules, const StageTimes& times) {
  double least = 0;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    double before = 0, after = 0, weights = 0;
    const int first = stage_at(shape, {rank, 0});
    for (int stage = 0; stage < first; ++stage) before += times_at(times, stage).forward;
    bool split = false;
    for (const Action& action : schedules[static_cast<size_t>(rank)]) {
      split |= action.kind == ActionKind::backward_weight;
      if (action.kind == ActionKind::backward_weight)
        weights += times_at(times, stage_at(shape, {rank, action.chunk})).backward_weight;
    }
    const bool backward = is_backward(schedules[static_cast<size_t>(rank)].back().kind) || split;
    for (int stage = 0; backward && stage < first; ++stage)
      after += times_at(times, stage).of(split ? ActionKind::backward_input : ActionKind::backward);
    if (split) after += times_at(times, 0).backward_weight;
    const double work = work_of(timeline.ranks[static_cast<size_t>(rank)]);
    // Its own weight gradients may come after everything that other ranks wait for.
    least = std::max({least, before + work, before + work - weights + after});
  }
  return least;
}

}  // namespace

double ActionTimes::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::forward:
    case ActionKind::evaluate: return forward;
    case ActionKind::backward: return backward_input + backward_weight;
    case ActionKind::backward_input: return backward_input;
    case ActionKind::backward_weight: return backward_weight;
  }
  return 0;
}

ScheduleReport check_schedules(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                               const StageTimes& times) {
  check(shape.microbatches > 0, "a step needs at least one microbatch, got {}", shape.microbatches);
  check(std::ssize(schedules) == shape.ranks, "{} lists for {} ranks", schedules.size(),
        shape.ranks);
  check(times.size() == 1 || std::ssize(times) == shape.stages(), "times of {} stages for {}",
        times.size(), shape.stages());
  ScheduleReport report;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    check_list(shape, schedules[static_cast<size_t>(rank)], rank);
    report.in_flight.push_back(activation_buffers_needed(schedules[static_cast<size_t>(rank)]));
  }
  report.timeline = timeline_of(shape, schedules, times);
  for (const std::vector<TimedAction>& actions : report.timeline.ranks)
    report.work = std::max(report.work, work_of(actions));
  report.lower_bound = least_length(shape, report.timeline, schedules, times);
  return report;
}

}  // namespace tessera
