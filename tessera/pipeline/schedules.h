// The pipeline schedules: pure functions from a shape and a rank to that rank's actions. In all of
// them a stage processes microbatches in ascending order, forward and backward, so that gradients
// are accumulated in the same order under every schedule.
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

/// 1F1B over several chunks per rank: `shape.group` microbatches of one chunk, then as many of the
/// next one, and so on.
Schedule interleaved(const PipelineShape& shape, int rank);

/// ZB-H1: 1F1B with a split backward. A rank delays as many weight gradients as there are ranks
/// before it. It thus holds as many microbatches as the first rank does, and computes weight
/// gradients at the end, where 1F1B would idle.
Schedule zero_bubble_h1(const PipelineShape& shape, int rank);

/// ZB-V: two chunks per rank, placed in a V. The first rank also has the last stage, so the first
/// backward starts on the rank with the most activations.
Schedule zero_bubble_v(const PipelineShape& shape, int rank);

/// Evaluation: forward of every microbatch, with its activation buffer free at once.
Schedule forward_only(const PipelineShape& shape, int rank);

/// The lists of all ranks.
using RankSchedule = Schedule (*)(const PipelineShape& shape, int rank);
std::vector<Schedule> make_schedules(const PipelineShape& shape, RankSchedule schedule);

/// The number of activation buffers that a rank needs: the maximum number of activations that it
/// holds at once.
int activation_buffers_needed(const Schedule& schedule);

/// The pipeline shape for these options over `ranks` ranks, and the schedule of a training step.
PipelineShape make_pipeline_shape(const PipelineOptions& options, int ranks, int microbatches);
std::vector<Schedule> training_schedules(const PipelineOptions& options,
                                         const PipelineShape& shape);
/// The number of microbatches at which every rank holds its maximum. With gpipe the maximum grows
/// with the number of microbatches.
int filling_microbatches(const PipelineOptions& options, int ranks);
/// Whether it computes weight gradients separately from input gradients.
bool splits_backward(ScheduleKind kind);

/// The names of a schedule: for flags, and for display.
struct ScheduleName {
  ScheduleKind kind;
  std::string_view flag;
  std::string_view title;
};
std::span<const ScheduleName> schedule_names();
std::string_view flag_of(ScheduleKind kind);
/// The display name of the schedule that runs; `automatic` depends on the number of chunks.
std::string_view schedule_title(const PipelineOptions& options);

}  // namespace tessera
