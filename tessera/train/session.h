// Everything one rank needs to run a model: device, mesh, memory, layers, parameters, optimizer,
// runner.
#pragma once

#include <memory>
#include <optional>

#include "tessera/launch/launch.h"
#include "tessera/model/stage_runner.h"
#include "tessera/optim/data_parallel.h"
#include "tessera/optim/optimizer.h"
#include "tessera/optim/parameter_buffers.h"
#include "tessera/pipeline/executor.h"
#include "tessera/train/device_batch.h"
#include "tessera/train/train_options.h"

namespace tessera {

struct SessionOptions {
  ModelOptions model;
  RecomputeOptions recompute;
  OptimizerOptions optimizer;
  ParallelOptions parallel;
  BatchShape shape;      ///< of a microbatch, whose samples a grid's rows share
  int microbatches = 1;  ///< per step and data-parallel rank
  std::uint64_t seed = 1234;
  bool training = true;
  bool split_backward = false;  ///< weight gradients apart from input gradients
  Device device;
  double memory_budget_gib = 0;  ///< of a GPU; 0: all there is
  CudaOptions cuda;
};

Device device_of(const TrainOptions& options);
CudaOptions cuda_of(const TrainOptions& options);
/// How many logits the output layer holds at once on a device.
std::int64_t most_logits(Device device);

/// Of the part of a microbatch that a rank works on.
BatchShape rank_shape(const SessionOptions& options);

/// The layers of the whole model on the first rank, with parameters that have no memory.
class DescribedModel {
 public:
  explicit DescribedModel(const SessionOptions& options);
  GptModel& model() { return model_; }

 private:
  Memory memory_;  ///< of the host: what layers allocate when they are made
  Stream stream_;
  GptModel model_;
};

/// Throws where the options do not fit the model's parameters.
void check_parameters(const SessionOptions& options);

/// How parameters, gradients and optimizer state lie on a rank, `shard` of those that share them.
ParameterBuffers::Options buffer_options(const SessionOptions& options, int shard);

/// How far tokens and positions may go.
DeviceBatches::Limits batch_limits(const SessionOptions& options);

class Session {
 public:
  /// Sizes that follow from options and layers.
  struct Plan {
    std::int64_t positions = 0;  ///< the longest sequence: of rotary tables and caches
    std::size_t workspace_bytes = 0;
    RunnerOptions runner;
  };
  static Plan plan(const SessionOptions& options, GptModel& model, const Kernels& kernels);

  /// Of the losses, weights and tokens that all replicas know.
  static std::int64_t shared_loss_bytes(const SessionOptions& options);

  /// All ranks of `rank.world` call it together. Weights are initialised from the seed.
  Session(const SessionOptions& options, const Rank& rank);

  const SessionOptions& options() const { return options_; }
  Context& context() { return *context_; }
  Memory& memory() { return memory_; }
  GptModel& model() { return *model_; }
  ParameterBuffers& parameters() { return *parameters_; }
  /// Only when training.
  Optimizer& optimizer() { return *optimizer_; }
  DataParallel& data_parallel() { return *data_parallel_; }
  /// The parameters were given other values: what follows from them follows.
  void adopt_values();
  StageRunner& runner() { return *runner_; }
  DeviceBatches& batches() { return *batches_; }
  /// Forward, and when training backward, of the batches that were set. Ranks whose choices of
  /// algorithms turn out different the first time run it twice, the second time with rank 0's.
  void run_microbatches(bool training);
  /// Per token, a batch's weights follow from the tokens of all replicas.
  void share_tokens(LossAverage average);
  /// The last stage knows the losses, a grid's rows those of their samples, replicas their own;
  /// afterwards all know all.
  void share_losses();
  /// f64 [replicas x microbatches]: sums of losses, and what they weigh. f64 [replicas]: labels
  /// that counted.
  ConstView step_losses() const { return step_losses_.view(); }
  ConstView step_weights() const { return step_weights_.view(); }
  ConstView step_tokens() const { return step_tokens_.view(); }

 private:
  void initialize();
  void gather_over_replicas(const View& all, const View& own);
  void make_borders();
  /// Ranks that compute the same round alike: all take rank 0's choices of algorithms, and for what
  /// it does not compute those of the first rank that does. False when all were equal.
  bool share_choices();

  SessionOptions options_;
  Memory memory_;
  Stream stream_;
  Trace trace_;
  std::unique_ptr<Kernels> kernels_;
  Mesh mesh_;
  Schedule schedule_;  ///< of a training step
  Schedule evaluation_;
  std::optional<GptModel> model_;
  Tensor workspace_;
  std::optional<Context> context_;
  std::optional<ParameterBuffers> parameters_;
  std::optional<DataParallel> data_parallel_;
  std::optional<Optimizer> optimizer_;
  std::optional<StageRunner> runner_;
  std::optional<DeviceBatches> batches_;
  Tensor step_losses_;
  Tensor step_weights_;
  Tensor step_tokens_;
  Tensor border_memory_;
  BorderBuffers borders_;
  std::optional<Executor> executor_;
  bool chose_for_training_ = false;  ///< choices were shared after a first run
  bool chose_for_evaluation_ = false;
};

}  // namespace tessera
