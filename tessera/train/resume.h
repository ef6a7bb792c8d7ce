// Resuming a run: which checkpoint to use, and whether the flags match the run.
#pragma once

#include <optional>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/saving/checkpointing.h"
#include "tessera/options/options.h"

namespace tessera {

/// The iteration of --ckpt-step; nothing: the newest.
std::optional<std::int64_t> wanted_iteration(const TrainOptions& options);

/// The checkpoint that --load and --ckpt-step select; nothing if there is none yet. Warns about
/// damaged ones.
std::optional<Checkpoint> checkpoint_of(const TrainOptions& options, bool warns);

/// Where a run starts: at the beginning without a checkpoint, or with --finetune.
Progress resumed_progress(const Options& options, const std::optional<Checkpoint>& checkpoint);

/// The position in the schedule, in samples of the current batch size: if the batch size changes, a
/// run with --train-iters keeps its position in iterations, one with --train-samples or
/// --lr-decay-samples in samples.
std::int64_t schedule_position(const Options& options, const Progress& progress);

/// A resumed run reads its samples in the order it began with, even with another seed
/// (--no-load-rng), which only changes dropout masks: no sample is repeated or skipped. With
/// --train-samples it ends after that many, whatever the batch sizes were.
Options resumed_options(const Options& options, const Progress& progress);
/// The number of samples of the run from beginning to end.
std::int64_t samples_of_run(const Options& options, const Progress& progress);

/// InputError unless the run is resumed with the same model on the same data. Dropout and label
/// smoothing may change, and so may the parallel layout, precision, batch size, schedule and
/// length. Returns whether the data has another path than before; its contents then have to be
/// compared.
bool check_same_run(const Checkpoint& checkpoint, const Options& now);

}  // namespace tessera
