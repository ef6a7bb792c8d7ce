// Everything one rank needs to run a model, built once: device, mesh, memory, layers, parameters,
// optimizer, stage runners. StepRunner runs steps on it.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "tessera/engine/device_batch.h"
#include "tessera/engine/expert_loads.h"
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

/// The number of logits that the output layer holds at once on a device.
std::int64_t most_logits(Device device);

/// The shape of the part of a microbatch that one rank works on.
BatchShape rank_shape(const SessionOptions& options);

/// Shape of the activation that one rank passes to the next stage.
Shape boundary_shape(const SessionOptions& options);

/// The layers of one pipeline rank, by chunk.
std::vector<StagePart> rank_parts(const SessionOptions& options, int pipeline_rank);

/// The training schedules of all pipeline ranks, empty without training. Searching for a schedule
/// may take a while.
std::vector<Schedule> training_schedules(const SessionOptions& options);

/// The layers of tensor-parallel rank 0, with parameters that have no memory; for plans and checks.
class DescribedModel {
 public:
  /// Describes the whole model.
  explicit DescribedModel(const SessionOptions& options);
  /// Describes the chunks of one pipeline rank.
  DescribedModel(const SessionOptions& options, int pipeline_rank);

  std::deque<GptModel>& chunks() { return chunks_; }
  ParameterList parameters();
  std::vector<ParameterList> fsdp_units();

 private:
  void add(const SessionOptions& options, const StagePart& part);

  Memory memory_;  ///< host memory, for what layers allocate in their constructors
  Stream stream_;
  std::deque<GptModel> chunks_;
};

/// The FSDP units of all chunks, chunk by chunk.
std::vector<ParameterList> all_fsdp_units(std::deque<GptModel>& chunks);

/// Throws if the options do not match the model's parameters.
void check_parameters(const SessionOptions& options);

/// The placement classes of all the model's parameters, including those that this rank has none of.
std::vector<PlacementClass> placement_classes(const SessionOptions& options);

/// How a class's parameters, gradients and optimizer state are stored on a rank; `shard` is its
/// index among the ranks that share them.
ParameterBuffers::Options buffer_options(const SessionOptions& options,
                                         PlacementClass placement_class, int shard);

/// The same for each class that the model uses, with the resulting layout and sizes for the FSDP
/// units of one rank.
struct ParameterPlan {
  ParameterBuffers::Options options;
  BucketLayout layout;
  ParameterBuffers::Elements elements;
};
std::vector<ParameterPlan> plan_parameters(const SessionOptions& options,
                                           const std::vector<ParameterList>& units);

/// Upper bounds of token ids and positions.
DeviceBatches::Limits batch_limits(const SessionOptions& options);

class Session {
 public:
  /// Sizes that follow from options and layers.
  struct Plan {
    /// The longest sequence, which determines the size of rotary tables and caches
    std::int64_t positions = 0;
    std::size_t workspace_bytes = 0;
    RunnerOptions runner;
    PipelineProgram training;  ///< empty without training
    PipelineProgram evaluation;
    int boundary_buffers = 0;  ///< buffers for messages between stages
  };
  static Plan plan(const SessionOptions& options, std::deque<GptModel>& chunks, int pipeline_rank,
                   const Kernels& kernels);
  /// The same for training schedules that have been computed already.
  static Plan plan(const SessionOptions& options, std::deque<GptModel>& chunks, int pipeline_rank,
                   const Kernels& kernels, const std::vector<Schedule>& training);
  static void include_fewer_microbatches(Plan& plan, SessionOptions options, int pipeline_rank);
  /// A StageRunner for each chunk, without memory yet (StageRunner::bind_memory).
  static std::deque<StageRunner> make_runners(std::deque<GptModel>& chunks, Context& context,
                                              RunnerOptions options);
  /// Allocates the memory that these runners share.
  static RunnerMemory memory_for(const std::deque<StageRunner>& runners, Memory& memory,
                                 const RunnerOptions& options);

  /// Bytes of the losses, weights and token counts gathered from all data-parallel ranks, of the
  /// extra losses, and of the loads of these chunks' experts.
  static std::int64_t step_value_bytes(const SessionOptions& options, std::deque<GptModel>& chunks);

  /// All ranks of `rank.world` call it together. Weights are initialised from the seed.
  Session(const SessionOptions& options, const Rank& rank);

  const SessionOptions& options() const { return options_; }
  /// Steps from now on have this many microbatches per data-parallel rank, at most as many as the
  /// session was made for. All ranks call it with the same number.
  void set_microbatches(int count);
  Context& context() { return *context_; }
  Memory& memory() { return memory_; }
  /// This rank's model chunks: one, unless the pipeline schedule is interleaved.
  std::deque<GptModel>& chunks() { return chunks_; }
  ModelParameters& parameters() { return *parameters_; }
  /// Only with training.
  Optimizer& optimizer() { return *optimizer_; }
  ExtraLosses& extra_losses() { return *extra_losses_; }
  ExpertLoads& expert_loads() { return *expert_loads_; }
  /// To be called after new parameter values were loaded; updates everything derived from them,
  /// such as master weights.
  void adopt_values();
  std::deque<StageRunner>& runners() { return runners_; }
  /// The runner of the last stage, or null on other ranks.
  StageRunner* head_runner();
  PipelineChannels& channels() { return *channels_; }
  const PipelineShape& pipeline_shape() const { return pipeline_shape_; }
  StepRunner& step_runner() { return *step_runner_; }

 private:
  std::int64_t sequences_of_step() const;
  void make_extra_losses();
  void make_expert_loads();
  StepRunner::Parts step_parts();

  SessionOptions options_;
  int most_microbatches_;  ///< that there is memory for
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
  std::optional<ExpertLoads> expert_loads_;
  std::optional<Optimizer> optimizer_;
  std::optional<RunnerMemory> runner_memory_;  ///< outlives the communication that runners started
  std::deque<StageRunner> runners_;
  std::optional<StepRunner> step_runner_;
};

/// Whether this rank's chunks read tokens or anything derived from them.
bool needs_tokens(Session& session, const DataOptions& data);

}  // namespace tessera
