// Runs the microbatches of a step: forward and backward over the pipeline, and the reduction of
// losses and token counts over the ranks.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "tessera/engine/context_work.h"
#include "tessera/engine/device_batch.h"
#include "tessera/engine/expert_loads.h"
#include "tessera/engine/extra_losses.h"
#include "tessera/engine/session_options.h"
#include "tessera/model/stage_runner.h"
#include "tessera/optim/model_parameters.h"
#include "tessera/optim/optimizer.h"
#include "tessera/pipeline/executor.h"

namespace tessera {

/// Makes all ranks use the same autotuned GEMM algorithms, so that equal GEMMs round equally: rank
/// 0's, or for a GEMM that rank 0 does not compute, those of the first rank that does. Returns
/// false if nothing had to change.
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
    ExpertLoads& expert_loads;
    Optimizer* optimizer;  ///< null without training
    std::deque<StageRunner>& runners;
    RunnerMemory& runner_memory;
    PipelineChannels& channels;
    bool has_head;  ///< whether this pipeline rank has the output layer
  };
  /// The pipeline programs to run, and the sizes of the memory to allocate.
  struct Plan {
    PipelineProgram training;  ///< empty without training
    PipelineProgram evaluation;
    int boundary_buffers = 0;  ///< buffers for messages between stages
    Shape boundary_shape;      ///< shape of such a message: [N, hidden]
    DeviceBatches::Limits limits;
  };
  StepRunner(const Parts& parts, Plan plan);

  DeviceBatches& batches() { return batches_; }
  /// Of the batches that went to batches().
  ContextWork& context_work() { return context_work_; }
  /// The programs of steps with another number of microbatches.
  void set_programs(PipelineProgram training, PipelineProgram evaluation) {
    plan_.training = std::move(training);
    plan_.evaluation = std::move(evaluation);
  }
  const Executor& executor() const { return *executor_; }
  /// To be called before the first microbatch of a training step.
  void begin_step();
  /// Runs forward, and in training backward, of all microbatches in batches(). On the first run, if
  /// the autotuner chose different algorithms on different ranks, runs them again with rank 0's.
  void run_microbatches(bool training);
  /// All-gathers the token counts over the data-parallel group. With per_token averaging, divides
  /// the microbatches' weights by their sum, for every target.
  void gather_token_counts(LossAverage average);
  /// All-reduces the loss sums over the pipeline, tensor-column (2-D) and context groups, and
  /// all-gathers them over the data-parallel group.
  void reduce_losses();
  /// f64 [data ranks x microbatches]: loss sums, and their weights. f64 [data ranks]: numbers of
  /// unmasked labels.
  ConstView losses() const { return losses_.view(); }
  ConstView weights() const { return weights_.view(); }
  ConstView tokens() const { return tokens_of(0); }

 private:
  void gather_over_data_ranks(const View& all, const View& own);
  View tokens_of(int target) const;
  BoundaryBuffers make_boundary_buffers();
  bool share_autotuned();
  /// Whether the first run of each program is preceded by a warm-up without messages.
  bool warms_up() const;

  Parts parts_;
  Plan plan_;
  DeviceBatches batches_;
  ContextWork context_work_;
  Tensor losses_;
  Tensor weights_;
  Tensor tokens_;
  Tensor boundary_memory_;
  std::optional<Executor> executor_;
  /// Whether the ranks have agreed on autotuned algorithms, which they do after the first run.
  bool autotuned_for_training_ = false;
  bool autotuned_for_evaluation_ = false;
};

}  // namespace tessera
