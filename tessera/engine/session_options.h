// What a session is built from, and how that follows from the options of a command.
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
  BatchShape shape;        ///< of a microbatch, whose samples a grid's rows share
  bool documents = false;  ///< samples are made of documents that do not see each other
  int microbatches = 1;    ///< per step and data-parallel rank
  std::uint64_t seed = 1234;
  bool training = true;
  Device device;
  double memory_budget_gib = 0;  ///< of a GPU; 0: all there is
  CudaOptions cuda;
};

Device device_of(const TrainOptions& options);

/// How the losses of a step are averaged.
LossAverage average_of(const TrainOptions& options);

/// What a session of these (resolved) options looks like, on the device that they name.
SessionOptions session_options(const Options& options, bool training);

/// The same on a rank's own device: which of the machine's GPUs it has is known when it was
/// started.
SessionOptions on_device_of(const Rank& rank, SessionOptions session);

/// What a rank needs to use a model on batches of this shape, one at a time.
SessionOptions inference_options(const Options& options, const BatchShape& shape, const Rank& rank);

}  // namespace tessera
