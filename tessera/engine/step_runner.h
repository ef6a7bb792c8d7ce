// Runs a step of a session: sends its batches to the device, runs forward and backward of its
// microbatches over the pipeline, and shares the losses with all ranks.
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

/// Makes ranks that compute the same products round in the same way: all take rank 0's autotuned
/// algorithms, and for products that rank 0 does not compute, those of the first rank that does.
/// Returns false if all were equal.
bool share_autotuned(Kernels& kernels, Stream& stream, Communicator& world);

class StepRunner {
 public:
  /// The parts of a session, which must outlive the runner.
  struct Parts {
    const SessionOptions& options;
    Context& context;
    Memory& memory;
    ModelParameters& parameters;
    ExtraLosses& extra_losses;
    Optimizer* optimizer;  ///< null without training
    std::deque<StageRunner>& runners;
    RunnerMemory& runner_memory;
    PipelineChannels& channels;
    bool has_head;  ///< whether this pipeline rank has the output layer
  };
  /// The programs that it runs, and the sizes of what it allocates.
  struct Plan {
    PipelineProgram training;  ///< empty without training
    PipelineProgram evaluation;
    int boundary_buffers = 0;  ///< buffers for messages between stages
    Shape boundary_shape;      ///< shape of such a message: [N, hidden]
    DeviceBatches::Limits limits;
  };
  StepRunner(const Parts& parts, Plan plan);

  DeviceBatches& batches() { return batches_; }
  const Executor& executor() const { return *executor_; }
  /// Before the first microbatch of a training step.
  void begin_step();
  /// Runs forward, and in training backward, of the batches that were set. If the ranks' autotuning
  /// chose different algorithms the first time, it runs twice, the second time with rank 0's.
  void run_microbatches(bool training);
  /// With per_token averaging: divides a batch's weights by the tokens of all data-parallel ranks.
  void gather_token_counts(LossAverage average);
  /// Shares the losses of a step with all ranks: those of the last stage, of the samples of each
  /// grid row, of the positions of each context-parallel rank, and of each data-parallel rank.
  void reduce_losses();
  /// f64 [data ranks x microbatches]: sums of losses, and their weights. f64 [data ranks]: labels
  /// that counted.
  ConstView losses() const { return losses_.view(); }
  ConstView weights() const { return weights_.view(); }
  ConstView tokens() const { return tokens_.view(); }

 private:
  void gather_over_data_ranks(const View& all, const View& own);
  BoundaryBuffers make_boundary_buffers();
  bool share_autotuned();
  /// Whether the first pass of its kind is preceded by a warm-up without messages.
  bool warms_up() const;

  Parts parts_;
  Plan plan_;
  DeviceBatches batches_;
  Tensor losses_;
  Tensor weights_;
  Tensor tokens_;
  Tensor boundary_memory_;
  std::optional<Executor> executor_;
  /// Autotuned algorithms have been shared after a first run
  bool autotuned_for_training_ = false;
  bool autotuned_for_evaluation_ = false;
};

}  // namespace tessera
