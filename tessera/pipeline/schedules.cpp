#include "tessera/pipeline/schedules.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/pipeline/search.h"

namespace tessera {
namespace {

// The microbatches in the order in which a rank's chunks process them: a group on one chunk, then
// on the next one. Backward visits the chunks in reverse order.
Schedule grouped_order(const PipelineShape& shape, ActionKind kind) {
  const int group = shape.group_size();
  Schedule order;
  for (int first = 0; first < shape.microbatches; first += group)
    for (int i = 0; i < shape.chunks; ++i) {
      const int chunk = is_forward(kind) ? i : shape.chunks - 1 - i;
      const int end = std::min(first + group, shape.microbatches);
      for (int m = first; m < end; ++m) order.push_back({kind, m, chunk});
    }
  return order;
}

// The first `warm_up` of `forwards`, then a backward after each remaining forward, then the
// remaining backwards.
Schedule alternate(const Schedule& forwards, const Schedule& backwards, std::size_t warm_up) {
  warm_up = std::min(warm_up, forwards.size());
  Schedule schedule(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (warm_up + i < forwards.size()) schedule.push_back(forwards[warm_up + i]);
    schedule.push_back(backwards[i]);
  }
  return schedule;
}

}  // namespace

Schedule gpipe(const PipelineShape& shape, int) {
  const Schedule forwards = grouped_order(shape, ActionKind::forward);
  return alternate(forwards, grouped_order(shape, ActionKind::backward), forwards.size());
}

Schedule one_f_one_b(const PipelineShape& shape, int rank) {
  return alternate(grouped_order(shape, ActionKind::forward),
                   grouped_order(shape, ActionKind::backward),
                   static_cast<std::size_t>(shape.ranks - 1 - rank));
}

// Before its first backward a rank has run the first group on all chunks but the last, and on the
// last chunk one microbatch per following rank, in both directions.
Schedule interleaved(const PipelineShape& shape, int rank) {
  if (shape.chunks == 1) return one_f_one_b(shape, rank);
  const int warm_up = (shape.chunks - 1) * shape.group_size() + 2 * (shape.ranks - 1 - rank);
  return alternate(grouped_order(shape, ActionKind::forward),
                   grouped_order(shape, ActionKind::backward), static_cast<std::size_t>(warm_up));
}

Schedule forward_only(const PipelineShape& shape, int) {
  return grouped_order(shape, ActionKind::evaluate);
}

std::vector<Schedule> make_schedules(const PipelineShape& shape, RankSchedule schedule) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < shape.ranks; ++rank) all.push_back(schedule(shape, rank));
  return all;
}

int activation_buffers_needed(const Schedule& schedule) {
  int held = 0;
  int most = 1;  // evaluation uses one activation buffer
  for (const Action& action : schedule) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++held);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) --held;
  }
  return most;
}

PipelineShape make_pipeline_shape(const PipelineOptions& options, int ranks, int microbatches) {
  return {ranks, microbatches, options.chunks,
          options.schedule == ScheduleKind::zb_v ? StagePlacement::vee : StagePlacement::loop,
          options.microbatch_group};
}

int filling_microbatches(const PipelineOptions& options, int ranks) {
  return 2 * std::max(ranks, make_pipeline_shape(options, ranks, 1).group_size());
}

std::span<const ScheduleName> schedule_names() {
  static constexpr ScheduleName kNames[] = {
      {ScheduleKind::automatic, "auto", "1F1B"},
      {ScheduleKind::gpipe, "gpipe", "GPipe"},
      {ScheduleKind::one_f_one_b, "1f1b", "1F1B"},
      {ScheduleKind::interleaved, "interleaved", "interleaved 1F1B"},
      {ScheduleKind::zb_h1, "zb-h1", "ZB-H1"},
      {ScheduleKind::zb_v, "zb-v", "ZB-V"},
      {ScheduleKind::search, "search", "searched schedule"},
  };
  return kNames;
}

std::string_view flag_of(ScheduleKind kind) {
  return std::ranges::find(schedule_names(), kind, &ScheduleName::kind)->flag;
}

std::string_view schedule_title(const PipelineOptions& options) {
  const bool loops = options.schedule == ScheduleKind::automatic && options.chunks > 1;
  const ScheduleKind kind = loops ? ScheduleKind::interleaved : options.schedule;
  return std::ranges::find(schedule_names(), kind, &ScheduleName::kind)->title;
}

bool splits_backward(ScheduleKind kind) {
  return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_v || kind == ScheduleKind::search;
}

std::vector<Schedule> training_schedules(const PipelineOptions& options,
                                         const PipelineShape& shape) {
  switch (options.schedule) {
    case ScheduleKind::automatic:
    case ScheduleKind::interleaved: return make_schedules(shape, interleaved);
    case ScheduleKind::gpipe: return make_schedules(shape, gpipe);
    case ScheduleKind::one_f_one_b: return make_schedules(shape, one_f_one_b);
    case ScheduleKind::zb_h1: return make_schedules(shape, zero_bubble_h1);
    case ScheduleKind::zb_v: return make_schedules(shape, zero_bubble_v);
    case ScheduleKind::search:
      return search_schedules(shape, times_of(options.action_times, shape.stages()),
                              options.memory_limit > 0 ? options.memory_limit : shape.ranks);
  }
  fail("no such schedule: {}", static_cast<int>(options.schedule));
}

}  // namespace tessera
