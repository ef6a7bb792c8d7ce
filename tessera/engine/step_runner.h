// Runs a step on what a session has built: its batches on the device, forward and backward of its
// microbatches over the pipeline, and the losses that all ranks then know.
#pragma once

#include <deque>
#include <optional>

#include "tessera/engine/device_batch.h"
#include "tessera/engine/extra_losses.h"
#include "tessera/engine/session_options.h"
#include "tessera/model/stage_runner.h"
#include "tessera/optim/model_parameters.h"
#include "tessera/optim/optimizer.h"
#include "tessera/pipeline/executor.h"

namespace tessera {

/// Ranks that compute the same round alike: all take rank 0's autotuned algorithms, and for what it
/// does not compute those of the first rank that does. False when all were equal.
bool share_autotuned(Kernels& kernels, Stream& stream, Communicator& world);

class StepRunner {
 public:
  /// What a session has built; it outlives the runner.
  struct Parts {
    const SessionOptions& options;
    Context& context;
    Memory& memory;
    ModelParameters& parameters;
    ExtraLosses& extra_losses;
    Optimizer* optimizer;  ///< null unless there is training
    std::deque<StageRunner>& runners;
    RunnerMemory& runner_memory;
    PipelineChannels& channels;
    bool has_head;  ///< this pipeline rank has the output layer
  };
  /// What it does, and the sizes of what it allocates.
  struct Plan {
    PipelineProgram training;  ///< empty unless there is training
    PipelineProgram evaluation;
    int boundary_buffers = 0;  ///< for messages between stages
    Shape boundary_shape;      ///< of such a message: [N, hidden]
    DeviceBatches::Limits limits;
  };
  StepRunner(const Parts& parts, Plan plan);

  DeviceBatches& batches() { return batches_; }
  const Executor& executor() const { return *executor_; }
  /// Before the first microbatch of a training step.
  void begin_step();
  /// Forward, and when training backward, of the batches that were set. Ranks whose autotuning of
  /// algorithms turn out different the first time run it twice, the second time with rank 0's.
  void run_microbatches(bool training);
  /// Per token, a batch's weights follow from the tokens of all data-parallel ranks.
  void share_tokens(LossAverage average);
  /// The last stage knows the losses, a grid's rows those of their samples, context-parallel ranks
  /// those of their positions, data-parallel ranks their own; afterwards all know all.
  void share_losses();
  /// f64 [data ranks x microbatches]: sums of losses, and what they weigh. f64 [data ranks]: labels
  /// that counted.
  ConstView losses() const { return losses_.view(); }
  ConstView weights() const { return weights_.view(); }
  ConstView tokens() const { return tokens_.view(); }

 private:
  void gather_over_data_ranks(const View& all, const View& own);
  BoundaryBuffers make_boundary_buffers();
  bool share_autotuned();
  /// Whether a pass that is the first of its kind is preceded by a warm-up without messages.
  bool warms_up() const;

  Parts parts_;
  Plan plan_;
  DeviceBatches batches_;
  Tensor losses_;
  Tensor weights_;
  Tensor tokens_;
  Tensor boundary_memory_;
  std::optional<Executor> executor_;
  bool autotuned_for_training_ = false;  ///< autotuned algorithms were shared after a first run
  bool autotuned_for_evaluation_ = false;
};

}  // namespace tessera
