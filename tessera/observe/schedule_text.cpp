#include "tessera/observe/schedule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "tessera/base/check.h"
#include "tessera/observe/profile.h"
#include "tessera/observe/trace_timeline.h"
#include "tessera/pipeline/picture.h"
#include "tessera/pipeline/search.h"
#include "tessera/pipeline/stage_boundary.h"

namespace tessera {
namespace {

struct Plan {
  PipelineShape shape;
  ScheduleReport report;
  std::vector<int> messages;  ///< by rank: that it has room for
  PictureOptions picture;
};

// What comes in and what goes out; a rank gives itself what it needs without a copy.
std::vector<int> room_for_messages(const PipelineShape& shape,
                                   const std::vector<Schedule>& schedules) {
  std::vector<int> messages(schedules.size());
  for (const BoundaryChannel& channel : boundary_channels(shape, schedules)) {
    messages[static_cast<std::size_t>(channel.to)] += channel.window;
    if (!channel.is_local()) messages[static_cast<std::size_t>(channel.from)] += channel.outgoing;
  }
  return messages;
}

Plan plan_of(const SessionOptions& options) {
  Plan plan;
  plan.shape =
      make_pipeline_shape(options.pipeline, options.parallel.pipeline, options.microbatches);
  const StageTimes times = options.pipeline.schedule == ScheduleKind::search
                               ? times_of(options.pipeline.action_times, plan.shape.stages())
                               : StageTimes{{}};
  const std::vector<Schedule> schedules = training_schedules(options.pipeline, plan.shape);
  plan.report = check_schedules(plan.shape, schedules, times);
  plan.messages = room_for_messages(plan.shape, schedules);
  plan.picture.chunks = plan.shape.chunks;
  plan.picture.title =
      fmt::format("{}, {} ranks", schedule_title(options.pipeline), plan.shape.ranks);
  if (plan.shape.chunks > 1)
    plan.picture.title += fmt::format(" with {} stages each", plan.shape.chunks);
  plan.picture.title += fmt::format(", {} microbatches", plan.shape.microbatches);
  return plan;
}

std::string percent(double part) { return fmt::format("{:.2f} %", 100 * part); }

std::string held_text(const Plan& plan) {
  return fmt::format(
      "activations held at most, in microbatches of a stage: {}\n"
      "messages between stages that a rank has room for: {}\n",
      fmt::join(plan.report.in_flight, " "), fmt::join(plan.messages, " "));
}

// Of the rank that works most: what is left of the time.
double bubble_of(const Timeline& timeline) {
  double most = 0;
  for (const std::vector<TimedAction>& row : timeline.ranks) {
    double busy = 0;
    for (const TimedAction& each : row) busy += each.end - each.begin;
    most = std::max(most, busy);
  }
  return timeline.length / most - 1;
}

using ActionKey = std::tuple<ActionKind, int, int>;
std::multiset<ActionKey> action_keys(const std::vector<TimedAction>& row) {
  std::multiset<ActionKey> actions;
  for (const auto& [action, begin, end] : row)
    actions.insert({action.kind, action.chunk, action.microbatch});
  return actions;
}

// A trace of another run, or other flags than its own, would be drawn under a wrong title.
void check_same_actions(const Plan& plan, const Timeline& recorded,
                        const std::vector<fs::path>& files) {
  for (std::size_t rank = 0; rank < files.size(); ++rank)
    check_input(action_keys(recorded.ranks[rank]) == action_keys(plan.report.timeline.ranks[rank]),
                "the trace '{}' has not the actions of this plan ({}): give the flags of the run "
                "that was recorded",
                files[rank].string(), plan.picture.title);
}

}  // namespace

ScheduleText planned_schedule(const SessionOptions& options) {
  const Plan plan = plan_of(options);
  ScheduleText result;
  result.text = fmt::format("{}\n", plan.picture.title);
  if (options.model.num_layers > 0)
    result.text += describe_stages(
        plan.shape,
        split_stages(model_outline(options.model), options.pipeline, options.parallel.pipeline));
  result.text += "\n" + timeline_text(plan.report.timeline, plan.picture);
  result.text += fmt::format(
      "\nbubble (idle time per work): {}; no schedule of its kind has less than {}\n{}"
      "(forward, input gradient and weight gradient {})\n",
      percent(plan.report.bubble()), percent(plan.report.least_bubble()), held_text(plan),
      options.pipeline.action_times.empty() ? "take the same time"
                                            : "take the times of --pipeline-action-times");
  result.svg = timeline_svg(plan.report.timeline, plan.picture);
  return result;
}

ScheduleText recorded_schedule(const SessionOptions& options, const std::string& trace) {
  Plan plan = plan_of(options);
  TrainOptions train;
  train.profile = true;
  train.profile_file = trace;
  const ParallelOptions& p = options.parallel;
  std::string first_ranks;
  for (int stage = 0; stage < p.pipeline; ++stage)
    first_ranks += fmt::format(" {}", stage * p.tensor * p.context * p.data);
  std::vector<fs::path> files;
  for (int stage = 0; stage < p.pipeline; ++stage) {
    const int rank = stage * p.tensor * p.context * p.data;
    files.emplace_back(profile_file(train, rank));
    check_input(fs::exists(files.back()),
                "there is no trace '{}': record the first rank of every stage (--profile-ranks{})",
                files.back().string(), first_ranks);
  }
  const Timeline timeline = timeline_of_traces(files);
  check_same_actions(plan, timeline, files);
  plan.picture.title += ", recorded";
  plan.picture.unit = " ms";
  ScheduleText result;
  result.text =
      fmt::format("{}\n\n{}\n", plan.picture.title, timeline_text(timeline, plan.picture));
  result.text += fmt::format(
      "{:.3f} ms; bubble (idle time per work of the busiest rank): {}; planned for equal times: "
      "{}\n",
      timeline.length, percent(bubble_of(timeline)), percent(plan.report.bubble()));
  result.svg = timeline_svg(timeline, plan.picture);
  return result;
}

}  // namespace tessera
