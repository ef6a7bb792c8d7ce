// Everything one rank needs to run a model, built once: device, mesh, memory, layers, parameters,
// optimizer, stage runners. StepRunner runs steps on it.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "tessera/engine/device_batch.h"
#include "tessera/engine/extra_losses.h"
#include "tessera/engine/session_options.h"
#include "tessera/engine/step_runner.h"
#include "tessera/launch/launch.h"
#include "tessera/model/stage_runner.h"
#include "tessera/optim/model_parameters.h"
#include "tessera/optim/optimizer.h"
#include "tessera/pipeline/executor.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {

/// How many logits the output layer holds at once on a device.
std::int64_t most_logits(Device device);

/// Of the part of a microbatch that a rank works on.
BatchShape rank_shape(const SessionOptions& options);

/// Of what passes between the stages of a pipeline, on one rank.
Shape boundary_shape(const SessionOptions& options);

/// The layers of one pipeline rank, by chunk.
std::vector<StagePart> rank_parts(const SessionOptions& options, int pipeline_rank);

/// What every pipeline rank does in a training step, if there is training; to search for it may
/// take a while.
std::vector<Schedule> training_schedules(const SessionOptions& options);

/// Layers of the first tensor-parallel rank, with parameters that have no memory.
class DescribedModel {
 public:
  /// Of the whole model.
  explicit DescribedModel(const SessionOptions& options);
  /// Of a pipeline rank's chunks.
  DescribedModel(const SessionOptions& options, int pipeline_rank);

  std::deque<GptModel>& chunks() { return chunks_; }
  ParameterList parameters();
  std::vector<ParameterList> fsdp_units();

 private:
  void add(const SessionOptions& options, const StagePart& part);

  Memory memory_;  ///< of the host: what layers allocate when they are made
  Stream stream_;
  std::deque<GptModel> chunks_;
};

/// The FSDP units of all chunks, one chunk's after the other's.
std::vector<ParameterList> all_fsdp_units(std::deque<GptModel>& chunks);

/// Throws where the options do not fit the model's parameters.
void check_parameters(const SessionOptions& options);

/// Of the whole model's parameters, also where a rank has none of a class.
std::vector<PlacementClass> placement_classes(const SessionOptions& options);

/// How a class's parameters, gradients and optimizer state lie on a rank, `shard` of those that
/// share them.
ParameterBuffers::Options buffer_options(const SessionOptions& options,
                                         PlacementClass placement_class, int shard);

/// The same for each class that the model uses, with what follows for a rank's part of the model.
struct ParameterPlan {
  ParameterBuffers::Options options;
  BucketLayout layout;
  ParameterBuffers::Elements elements;
};
std::vector<ParameterPlan> plan_parameters(const SessionOptions& options,
                                           const std::vector<ParameterList>& units);

/// How far tokens and positions may go.
DeviceBatches::Limits batch_limits(const SessionOptions& options);

class Session {
 public:
  /// Sizes that follow from options and layers.
  struct Plan {
    std::int64_t positions = 0;  ///< the longest sequence: of rotary tables and caches
    std::size_t workspace_bytes = 0;
    RunnerOptions runner;
    PipelineProgram training;  ///< empty unless there is training
    PipelineProgram evaluation;
    int boundary_buffers = 0;  ///< for messages between stages
  };
  static Plan plan(const SessionOptions& options, std::deque<GptModel>& chunks, int pipeline_rank,
                   const Kernels& kernels);
  /// The same, where the training's schedules are known.
  static Plan plan(const SessionOptions& options, std::deque<GptModel>& chunks, int pipeline_rank,
                   const Kernels& kernels, const std::vector<Schedule>& training);
  /// The chunks' runners, which are still without memory.
  static std::deque<StageRunner> make_runners(std::deque<GptModel>& chunks, Context& context,
                                              RunnerOptions options);
  /// And the memory for them.
  static RunnerMemory memory_for(const std::deque<StageRunner>& runners, Memory& memory,
                                 const RunnerOptions& options);

  /// Of the losses, weights and tokens that all data-parallel ranks know.
  static std::int64_t shared_loss_bytes(const SessionOptions& options);

  /// All ranks of `rank.world` call it together. Weights are initialised from the seed.
  Session(const SessionOptions& options, const Rank& rank);

  const SessionOptions& options() const { return options_; }
  Context& context() { return *context_; }
  Memory& memory() { return memory_; }
  /// This rank's parts of the model, one unless the pipeline interleaves them.
  std::deque<GptModel>& chunks() { return chunks_; }
  ModelParameters& parameters() { return *parameters_; }
  /// Only when training.
  Optimizer& optimizer() { return *optimizer_; }
  ExtraLosses& extra_losses() { return *extra_losses_; }
  /// The parameters were given other values: what follows from them follows.
  void adopt_values();
  std::deque<StageRunner>& runners() { return runners_; }
  /// The one that has the output layer; null: another pipeline rank has it.
  StageRunner* head_runner();
  PipelineChannels& channels() { return *channels_; }
  const PipelineShape& pipeline_shape() const { return pipeline_shape_; }
  StepRunner& step_runner() { return *step_runner_; }

 private:
  void make_extra_losses();
  StepRunner::Parts step_parts();

  SessionOptions options_;
  Memory memory_;
  Stream stream_;
  Trace trace_;
  std::unique_ptr<Kernels> kernels_;
  Mesh mesh_;
  PipelineShape pipeline_shape_;
  std::optional<PipelineChannels> channels_;
  std::deque<GptModel> chunks_;
  Tensor workspace_;
  std::optional<Context> context_;
  std::optional<ModelParameters> parameters_;
  std::optional<ExtraLosses> extra_losses_;
  std::optional<Optimizer> optimizer_;
  std::deque<StageRunner> runners_;
  std::optional<RunnerMemory> runner_memory_;
  std::optional<StepRunner> step_runner_;
};

/// Whether a rank's part of the model sees tokens, or needs to know what they are.
bool needs_tokens(Session& session, const DataOptions& data);

}  // namespace tessera
