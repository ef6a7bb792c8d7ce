// The options of a session, and their derivation from the options of a command.
#pragma once

#include "tessera/engine/device_batch.h"
#include "tessera/kernels/kernels.h"
#include "tessera/launch/rank.h"
#include "tessera/options/options.h"

namespace tessera {

struct SessionOptions {
  ModelOptions model;
  RecomputeOptions recompute;
  OptimizerOptions optimizer;
  ParallelOptions parallel;
  PipelineOptions pipeline;
  /// Shape of a microbatch; with 2-D tensor parallelism the grid rows split its samples
  BatchShape shape;
  bool losses_by_layer = false;  ///< extra losses are kept for each layer, too
  bool documents = false;  ///< whether samples hold documents that do not attend to each other
  int microbatches = 1;    ///< per step and data-parallel rank; at most, if the number changes
  std::vector<int> fewer_microbatches = {};  ///< other numbers that steps or evaluations have
  std::uint64_t seed = 1234;
  bool training = true;
  Device device;
  double memory_budget_gib = 0;  ///< of a GPU; 0: all of its memory
  CudaOptions cuda;
};

Device device_of(const TrainOptions& options);

/// How the losses of a step are averaged.
LossAverage average_of(const TrainOptions& options);

/// The microbatches of each data-parallel rank in a batch of this many samples.
int microbatches_of_batch(const Options& options, std::int64_t samples);

/// The session options for these (resolved) options, on the device that they name.
SessionOptions session_options(const Options& options, bool training);

/// The same on a rank's own device, which is known only after the rank has been started.
SessionOptions on_device_of(const Rank& rank, SessionOptions session);

/// The options to run a model on batches of this shape, one at a time.
SessionOptions inference_options(const Options& options, const BatchShape& shape, const Rank& rank);

}  // namespace tessera
