#include "tessera/engine/session.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/model/freeze.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

PipelineShape make_pipeline_shape(const SessionOptions& options) {
  return make_pipeline_shape(options.pipeline, options.parallel.pipeline, options.microbatches);
}

/// A rank's places in the groups that layers are split over.
struct LayerRanks {
  int tensor = 0;
  int context = 0;
  int expert = 0;
  int expert_tensor = 0;
};

LayerContext layer_context(const SessionOptions& options, const LayerRanks& ranks = {}) {
  return {
      .dtype = options.model.dtype,
      .seed = options.seed,
      .tensor_rank = ranks.tensor,
      .tensor_size = options.parallel.tensor,
      .sequence_parallel = options.parallel.sequence_parallel,
      .most_logits = most_logits(options.device),
      .tensor_2d = options.parallel.tensor_2d,
      .context_rank = ranks.context,
      .context_size = options.parallel.context,
      .context_heads_size = options.parallel.context_heads(),
      .cp_comm_types = options.parallel.cp_comm_types,
      .expert_rank = ranks.expert,
      .expert_size = options.parallel.expert,
      .expert_tensor_rank = ranks.expert_tensor,
      .expert_tensor_size = options.parallel.expert_tensor_size(),
      .token_dispatcher = options.parallel.token_dispatcher,
      .grouped_gemm = options.parallel.grouped_gemm,
      .recompute_core_attention = options.recompute.granularity == RecomputeGranularity::selective};
}

// Those of layers, then those of multi-token prediction.
std::vector<std::string> trained_extra_losses(const SessionOptions& options) {
  if (!options.training) return {};
  const ModelSpec spec = model_spec(options.model);
  std::vector<std::string> names = extra_loss_names(spec);
  for (std::string& name : mtp_loss_names(spec)) names.push_back(std::move(name));
  return names;
}

// The number of layers with experts in the whole model.
std::int64_t expert_layers(const ModelOptions& model) {
  const ModelSpec spec = model_spec(model);
  return std::ranges::count_if(all_layers(spec), [](const LayerSpec* layer) {
    return std::holds_alternative<MoeSpec>(layer->feed_forward);
  });
}

ExpertLoadList trained_expert_loads(const SessionOptions& options, std::deque<GptModel>& chunks) {
  ExpertLoadList all;
  if (!options.training) return all;
  for (GptModel& chunk : chunks)
    for (ExpertLoad* load : chunk.expert_loads()) all.push_back(load);
  return all;
}

std::int64_t statistics_of(const SessionOptions& options) {
  if (!options.training || options.model.num_experts == 0) return 0;
  return std::ssize(ExpertLoads::statistics());
}

ExtraLosses::Plan extra_loss_plan(const SessionOptions& options) {
  const ModelOptions& model = options.model;
  return {.names = trained_extra_losses(options),
          .means = options.training ? model.mtp_num_layers : 0,
          .statistics = statistics_of(options),
          .layers = options.losses_by_layer ? model.num_layers + model.mtp_num_layers : 0};
}

std::int64_t positions_of(const SessionOptions& options) {
  return std::max(options.shape.seq, options.model.max_position_embeddings);
}

// Only rank 0 reads and writes the autotune cache file; the other ranks get the algorithms from it.
CudaOptions cuda_of_rank(CudaOptions cuda, int rank) {
  if (rank > 0) cuda.gemm_file.clear();
  return cuda;
}

std::int64_t memory_limit(const SessionOptions& options) {
  if (options.memory_budget_gib == 0) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(options.memory_budget_gib * (1 << 30));
}

// The number of tensor-parallel ranks that hold the same key/value heads.
int kv_replicas(const SessionOptions& options) {
  if (options.parallel.tensor_2d > 0) return 1;
  const std::int64_t groups = options.model.num_query_groups;
  return groups < options.parallel.tensor ? options.parallel.tensor / static_cast<int>(groups) : 1;
}

}  // namespace

// Each chunk of logits reads and writes the whole weight gradient of the output layer. On a GPU
// that traffic costs more than the memory of a larger chunk.
std::int64_t most_logits(Device device) {
  return std::int64_t{1} << (device.kind == DeviceKind::cuda ? 29 : 24);
}

Shape boundary_shape(const SessionOptions& options) {
  return RowLayout(layer_context(options))
      .local_shape(rank_shape(options), options.model.hidden_size);
}

BatchShape rank_shape(const SessionOptions& options) {
  return {options.shape.seq / options.parallel.context,
          options.shape.batch / std::max(1, options.parallel.tensor_2d)};
}

std::vector<StagePart> rank_parts(const SessionOptions& options, int pipeline_rank) {
  const PipelineShape shape = make_pipeline_shape(options);
  const std::vector<StagePart> all =
      split_stages(model_outline(options.model), options.pipeline, shape.ranks);
  std::vector<StagePart> parts;
  for (int chunk = 0; chunk < shape.chunks; ++chunk)
    parts.push_back(all[static_cast<std::size_t>(stage_at(shape, {pipeline_rank, chunk}))]);
  return parts;
}

std::vector<Schedule> training_schedules(const SessionOptions& options) {
  if (!options.training) return {};
  return training_schedules(options.pipeline, make_pipeline_shape(options));
}

DescribedModel::DescribedModel(const SessionOptions& options)
    : memory_(Device()), stream_(Device()) {
  add(options, whole_part(model_outline(options.model)));
}

DescribedModel::DescribedModel(const SessionOptions& options, int pipeline_rank)
    : memory_(Device()), stream_(Device()) {
  for (const StagePart& part : rank_parts(options, pipeline_rank)) add(options, part);
}

void DescribedModel::add(const SessionOptions& options, const StagePart& part) {
  GptModel& chunk = chunks_.emplace_back(model_spec(options.model), part, layer_context(options),
                                         memory_, stream_, 1);
  if (options.training) freeze(chunk.parameters(), options.optimizer.frozen);
}

std::vector<ParameterList> all_fsdp_units(std::deque<GptModel>& chunks) {
  std::vector<ParameterList> all;
  for (GptModel& chunk : chunks)
    for (ParameterList& unit : chunk.fsdp_units()) all.push_back(std::move(unit));
  return all;
}

std::vector<ParameterList> DescribedModel::fsdp_units() { return all_fsdp_units(chunks_); }

ParameterList DescribedModel::parameters() {
  ParameterList all;
  for (GptModel& chunk : chunks_)
    for (Parameter* parameter : chunk.parameters()) all.push_back(parameter);
  return all;
}

void check_parameters(const SessionOptions& options) {
  check_frozen(DescribedModel(options).parameters(), options.optimizer.frozen);
}

std::vector<PlacementClass> placement_classes(const SessionOptions& options) {
  DescribedModel model(options);
  std::vector<PlacementClass> used;
  for (const PlacementClass each : kPlacementClasses)
    if (std::ranges::any_of(model.parameters(), [each](const Parameter* parameter) {
          return parameter->placement_class() == each;
        }))
      used.push_back(each);
  return used;
}

ParameterBuffers::Options buffer_options(const SessionOptions& options,
                                         PlacementClass placement_class, int shard) {
  std::optional<DType> gradients;
  if (options.training)
    gradients = Optimizer::gradient_dtype(options.optimizer, options.model.dtype);
  return ParameterBuffers::options_for(options.parallel, placement_class, shard,
                                       options.model.dtype, gradients);
}

std::vector<ParameterPlan> plan_parameters(const SessionOptions& options,
                                           const std::vector<ParameterList>& units) {
  std::vector<ParameterPlan> plans;
  for (const PlacementClass each : placement_classes(options)) {
    const ParameterBuffers::Options buffers = buffer_options(options, each, 0);
    BucketLayout layout = ParameterBuffers::layout_for(units, buffers);
    const ParameterBuffers::Elements elements = ParameterBuffers::elements_for(layout, buffers);
    plans.push_back({buffers, std::move(layout), elements});
  }
  return plans;
}

DeviceBatches::Limits batch_limits(const SessionOptions& options) {
  const bool learned = options.model.position_embedding == PositionEmbedding::learned_absolute;
  return {options.model.vocab_size,
          learned ? options.model.max_position_embeddings : positions_of(options),
          options.documents,
          options.training ? mtp_loss_weights(model_spec(options.model)) : std::vector<double>()};
}

Session::Plan Session::plan(const SessionOptions& options, std::deque<GptModel>& chunks,
                            int pipeline_rank, const Kernels& kernels) {
  return plan(options, chunks, pipeline_rank, kernels, training_schedules(options));
}

// Steps with fewer microbatches may need more buffers: a schedule then has another order.
void Session::include_fewer_microbatches(Plan& plan, SessionOptions options, int pipeline_rank) {
  for (const int count : std::vector<int>(options.fewer_microbatches)) {
    options.microbatches = count;
    const PipelineShape shape = make_pipeline_shape(options);
    const PipelineProgram evaluation =
        compile(shape, make_schedules(shape, forward_only), pipeline_rank);
    const PipelineProgram training =
        options.training ? compile(shape, training_schedules(options), pipeline_rank)
                         : PipelineProgram();
    const PipelineProgram& most = options.training ? training : evaluation;
    plan.boundary_buffers =
        std::max({plan.boundary_buffers, evaluation.buffers(), training.buffers()});
    plan.runner.activation_buffers =
        std::max(plan.runner.activation_buffers, most.activation_buffers);
  }
}

Session::Plan Session::plan(const SessionOptions& options, std::deque<GptModel>& chunks,
                            int pipeline_rank, const Kernels& kernels,
                            const std::vector<Schedule>& training) {
  Plan plan;
  plan.positions = positions_of(options);
  for (GptModel& chunk : chunks)
    plan.workspace_bytes = std::max(
        plan.workspace_bytes, chunk.workspace_bytes(kernels, rank_shape(options), plan.positions));
  const std::vector<ParameterPlan> parameters = plan_parameters(options, all_fsdp_units(chunks));
  for (const ParameterPlan& each : parameters)
    plan.workspace_bytes =
        std::max(plan.workspace_bytes, kernels.sum_squares_workspace_bytes(each.layout.elements()));
  const PipelineShape shape = make_pipeline_shape(options);
  if (options.training) plan.training = compile(shape, training, pipeline_rank);
  plan.evaluation = compile(shape, make_schedules(shape, forward_only), pipeline_rank);
  plan.boundary_buffers = std::max(plan.evaluation.buffers(), plan.training.buffers());
  RunnerOptions& run = plan.runner;
  run.shape = rank_shape(options);
  run.activation_buffers =
      options.training ? plan.training.activation_buffers : plan.evaluation.activation_buffers;
  include_fewer_microbatches(plan, options, pipeline_rank);
  run.microbatches = options.microbatches;
  run.recompute = options.recompute;
  run.split_backward = options.training && splits_backward(options.pipeline.schedule);
  if (run.split_backward && options.parallel.sharding >= Sharding::gradients)
    run.kept_norm_gradients = parameters.front().options.gradients;
  run.training = options.training;
  return plan;
}

std::deque<StageRunner> Session::make_runners(std::deque<GptModel>& chunks, Context& context,
                                              RunnerOptions options) {
  std::deque<StageRunner> runners;
  for (GptModel& chunk : chunks) {
    runners.emplace_back(chunk, context, options);
    options.first_fsdp_unit += chunk.fsdp_units().size();
  }
  return runners;
}

RunnerMemory Session::memory_for(const std::deque<StageRunner>& runners, Memory& memory,
                                 const RunnerOptions& options) {
  RunnerMemory::Sizes sizes;
  for (const StageRunner& runner : runners) sizes.include(runner.sizes());
  return {memory, sizes, options.activation_buffers, options.microbatches};
}

Session::Session(const SessionOptions& options, const Rank& rank)
    : options_(options),
      most_microbatches_(options.microbatches),
      memory_(options.device, memory_limit(options)),
      stream_(options.device),
      trace_(options.device),
      kernels_(make_kernels(options.device, rank.threads, cuda_of_rank(options.cuda, rank.rank))),
      mesh_(options.parallel, rank.world, kv_replicas(options)),
      pipeline_shape_(make_pipeline_shape(options)) {
  share_autotuned(*kernels_, stream_, mesh_.world());  // from rank 0's cache file
  const int stage = mesh_.pipeline().rank();
  const LayerRanks ranks{mesh_.tensor().rank(), mesh_.context().rank(), mesh_.expert().rank(),
                         mesh_.expert_tensor().rank()};
  channels_.emplace(mesh_.pipeline(), pipeline_shape_, stream_);
  for (const StagePart& part : rank_parts(options, stage)) {
    GptModel& chunk =
        chunks_.emplace_back(model_spec(options.model), part, layer_context(options, ranks),
                             memory_, stream_, positions_of(options));
    if (options.training) freeze(chunk.parameters(), options.optimizer.frozen);
  }
  Plan sizes = plan(options, chunks_, stage, *kernels_);
  workspace_ = memory_.allocate(MemoryUse::workspace, DType::u8,
                                {static_cast<std::int64_t>(sizes.workspace_bytes)});
  context_.emplace(Context{*kernels_, stream_, mesh_, workspace_, &trace_});
  std::vector<ParameterBuffers::Options> classes;
  for (const PlacementClass each : placement_classes(options))
    classes.push_back(buffer_options(options, each, mesh_.groups(each).sharding->rank()));
  parameters_.emplace(
      all_fsdp_units(chunks_), *context_, memory_, classes,
      DataParallel::Options{options.microbatches, options.parallel.overlap_grad_reduce,
                            options.parallel.overlap_param_gather});
  parameters_->initialize(*context_, options.seed);
  if (options.training) optimizer_.emplace(options.optimizer, *parameters_, *context_, memory_);
  make_extra_losses();
  make_expert_loads();
  runners_ = make_runners(chunks_, *context_, sizes.runner);
  runner_memory_.emplace(memory_for(runners_, memory_, sizes.runner));
  for (StageRunner& runner : runners_) {
    runner.bind_memory(*runner_memory_);
    runner.set_hooks(*parameters_);
  }
  step_runner_.emplace(
      step_parts(),
      StepRunner::Plan{std::move(sizes.training), std::move(sizes.evaluation),
                       sizes.boundary_buffers, boundary_shape(options), batch_limits(options)});
}

void Session::set_microbatches(int count) {
  if (count == options_.microbatches) return;
  check(count >= 1 && count <= most_microbatches_, "{} microbatches, there is memory for {}", count,
        most_microbatches_);
  options_.microbatches = count;
  const PipelineShape shape = make_pipeline_shape(options_);
  const int stage = mesh_.pipeline().rank();
  step_runner_->set_programs(
      options_.training ? compile(shape, training_schedules(options_), stage) : PipelineProgram(),
      compile(shape, make_schedules(shape, forward_only), stage));
  step_runner_->batches().set_count(count);
  parameters_->set_microbatches(count);
  extra_losses_->set_sequences(*context_, sequences_of_step());
  kernels_->fill(stream_, runner_memory_->loss_sums(), 0);  // of microbatches that are not there
}

std::int64_t Session::sequences_of_step() const {
  return options_.shape.batch * options_.microbatches * options_.parallel.data;
}

StepRunner::Parts Session::step_parts() {
  return {options_,
          *context_,
          memory_,
          *parameters_,
          *extra_losses_,
          *expert_loads_,
          optimizer_ ? &*optimizer_ : nullptr,
          runners_,
          *runner_memory_,
          *channels_,
          head_runner() != nullptr};
}

void Session::make_extra_losses() {
  ExtraLossList own;
  for (GptModel& chunk : chunks_)
    for (ExtraLoss* loss : chunk.extra_losses()) own.push_back(loss);
  if (!options_.training) own.clear();
  extra_losses_.emplace(extra_loss_plan(options_), own, sequences_of_step(), *context_, memory_);
}

void Session::make_expert_loads() {
  expert_loads_.emplace(trained_expert_loads(options_, chunks_), expert_layers(options_.model),
                        options_.parallel.sequence_parallel, *context_, memory_);
}

StageRunner* Session::head_runner() {
  for (std::size_t i = 0; i < chunks_.size(); ++i)
    if (chunks_[i].head) return &runners_[i];
  return nullptr;
}

std::int64_t Session::step_value_bytes(const SessionOptions& options,
                                       std::deque<GptModel>& chunks) {
  const std::int64_t depths = options.training ? options.model.mtp_num_layers : 0;
  return std::int64_t{options.parallel.data} * (2 * options.microbatches + 1 + depths) *
             static_cast<std::int64_t>(sizeof(double)) +
         ExtraLosses::bytes_for(extra_loss_plan(options)) +
         ExpertLoads::bytes_for(trained_expert_loads(options, chunks));
}

void Session::adopt_values() {
  parameters_->parameters_updated();
  if (optimizer_) optimizer_->adopt_values(*context_);
}

// The embedding reads tokens and the head reads labels. Data derived from tokens, such as document
// boundaries, is needed on all stages.
bool needs_tokens(Session& session, const DataOptions& data) {
  if (data.eod_mask_loss || data.reset_position_ids || data.keeps_documents_apart() ||
      data.fim.enabled)
    return true;
  const auto sees = [](const GptModel& part) { return part.embedding || part.head; };
  return std::any_of(session.chunks().begin(), session.chunks().end(), sees);
}

}  // namespace tessera
