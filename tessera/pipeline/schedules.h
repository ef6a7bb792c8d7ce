// The schedules: pure functions from a shape and a rank to that rank's actions. In all of them a
// stage takes microbatches in ascending order, forward and backward, so that gradients are added up
// in the same order whatever the schedule.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tessera/options/pipeline_options.h"
#include "tessera/pipeline/action.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

/// All forwards, then all backwards.
Schedule gpipe(const PipelineShape& shape, int rank);

/// One forward, one backward: warm-up forwards until the pipeline is full, then a backward after
/// each forward.
Schedule one_f_one_b(const PipelineShape& shape, int rank);

/// The same over several chunks, in a loop: `shape.group` microbatches of a chunk, as many of the
/// next one, and so on.
Schedule interleaved(const PipelineShape& shape, int rank);

/// 1F1B with each backward split. A rank leaves as many weight gradients for later as ranks come
/// before it: it holds as many microbatches as the first rank does, and in the end it computes
/// weights while it would wait.
Schedule zero_bubble_h1(const PipelineShape& shape, int rank);

/// Two chunks on each rank, placed there and back again (vee): the first rank also has the last
/// stage, so that the first backward starts where forward memory is needed most.
Schedule zero_bubble_v(const PipelineShape& shape, int rank);

/// Evaluation: every microbatch forward, its activation buffer free at once.
Schedule forward_only(const PipelineShape& shape, int rank);

/// All ranks' lists.
using RankSchedule = Schedule (*)(const PipelineShape& shape, int rank);
std::vector<Schedule> make_schedules(const PipelineShape& shape, RankSchedule schedule);

/// How many activation buffers a rank needs: the activations that it holds at once.
int activation_buffers_needed(const Schedule& schedule);

/// The shape that options ask for over `ranks`, and the schedule of a training step.
PipelineShape make_pipeline_shape(const PipelineOptions& options, int ranks, int microbatches);
std::vector<Schedule> training_schedules(const PipelineOptions& options,
                                         const PipelineShape& shape);
/// Enough microbatches for every rank to hold as many as it ever does, but for gpipe, where more of
/// them are held the more there are.
int filling_microbatches(const PipelineOptions& options, int ranks);
/// Whether its weight gradients come apart from its input gradients.
bool splits_backward(ScheduleKind kind);

/// What a schedule is called: by flags, and in texts for people.
struct ScheduleName {
  ScheduleKind kind;
  std::string_view flag;
  std::string_view title;
};
std::span<const ScheduleName> schedule_names();
std::string_view flag_of(ScheduleKind kind);
/// Of the schedule that runs, which automatic leaves to the number of chunks.
std::string_view schedule_title(const PipelineOptions& options);

}  // namespace tessera
