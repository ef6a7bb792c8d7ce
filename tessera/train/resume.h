// Going on with a run: which checkpoint, and whether the flags are those of the run.
#pragma once

#include <optional>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/saving/checkpointing.h"
#include "tessera/options/options.h"

namespace tessera {

/// Of --ckpt-step; nothing: the newest.
std::optional<std::int64_t> wanted_iteration(const TrainOptions& options);

/// What --load and --ckpt-step name; nothing when there is none yet. Warns of damaged ones.
std::optional<Checkpoint> checkpoint_of(const TrainOptions& options, bool warns);

/// Where a run goes on: at the beginning without a checkpoint, or with --finetune.
Progress resumed_progress(const Options& options, const std::optional<Checkpoint>& checkpoint);

/// Where it is in its schedule, in samples of the batches that it has now: a run of --train-iters
/// keeps its place in iterations when the batch size changes, one of --train-samples in samples.
std::int64_t schedule_position(const TrainOptions& options, const Progress& progress);

/// A run that goes on meets its samples in the order it began with, also when it goes on with
/// another seed (--no-load-rng), and then other dropout masks: none twice, and none not at all.
/// With --train-samples it ends with these, whatever the batches were before.
Options resumed_options(const Options& options, const Progress& progress);
/// What training takes from the beginning to the end of the run.
std::int64_t samples_of_run(const TrainOptions& options, const Progress& progress);

/// InputError unless a run goes on as what it was: the same model on the same data. Dropout and
/// label smoothing may change, and so may the layout, the precision, the batch size, the schedule
/// and the length, which Megatron's users do change. Returns whether the data is said to lie
/// elsewhere than before; whether it is the same is then to be found out.
bool check_same_run(const Checkpoint& checkpoint, const Options& now);

}  // namespace tessera
