#include "tessera/train/session.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tessera/launch/compare.h"
#include "tessera/model/freeze.h"
#include "tessera/nn/initialize.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

Schedule schedule_of(const SessionOptions& options, int stage) {
  const PipelineShape shape{options.parallel.pipeline, options.microbatches};
  return options.split_backward ? one_f_one_b_split(shape, stage) : one_f_one_b(shape, stage);
}

std::int64_t positions_of(const SessionOptions& options) {
  return std::max(options.shape.seq, options.model.max_position_embeddings);
}

// Rank 0 alone reads and writes the file of chosen algorithms; the others learn them from it.
CudaOptions cuda_of_rank(CudaOptions cuda, int rank) {
  if (rank > 0) cuda.gemm_file.clear();
  return cuda;
}

std::int64_t memory_limit(const SessionOptions& options) {
  if (options.memory_budget_gib == 0) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(options.memory_budget_gib * (1 << 30));
}

// How many tensor-parallel ranks hold the same key/value heads.
int head_copies(const SessionOptions& options) {
  if (options.parallel.grid > 0) return 1;
  const std::int64_t groups = options.model.num_query_groups;
  return groups < options.parallel.tensor ? options.parallel.tensor / static_cast<int>(groups) : 1;
}

}  // namespace

// Each chunk of logits reads and writes the whole gradient of the output layer, which a GPU feels
// more than the memory of a larger chunk.
std::int64_t most_logits(Device device) {
  return std::int64_t{1} << (device.kind == DeviceKind::cuda ? 29 : 24);
}

Device device_of(const TrainOptions& options) {
  return {options.device == DeviceChoice::cuda ? DeviceKind::cuda : DeviceKind::cpu, 0};
}

CudaOptions cuda_of(const TrainOptions& options) {
  // A run that goes on finds the choices that it began with. A deterministic one makes none, and
  // takes others' only when it is told to.
  const bool beside =
      options.gemm_choices.empty() && !options.save.empty() && !options.deterministic_mode;
  return {options.allow_tf32, options.deterministic_mode,
          beside ? options.save + "/gemm_choices.txt" : options.gemm_choices};
}

BatchShape rank_shape(const SessionOptions& options) {
  return {options.shape.seq, options.shape.batch / std::max(1, options.parallel.grid)};
}

DescribedModel::DescribedModel(const SessionOptions& options)
    : memory_(Device()),
      stream_(Device()),
      model_(
          options.model, options.recompute, stage_part(options.model, 1, 0),
          {options.model.dtype, options.seed, 0, options.parallel.tensor,
           options.parallel.sequence_parallel, most_logits(options.device), options.parallel.grid},
          memory_, stream_, 1) {
  if (options.training) freeze(model_.parameters(), options.optimizer.frozen);
}

void check_parameters(const SessionOptions& options) {
  check_frozen(DescribedModel(options).model().parameters(), options.optimizer.frozen);
}

// Megatron's rule: large enough to use the network well, however many ranks share it.
constexpr std::int64_t kLeastBucket = 40'000'000;
constexpr std::int64_t kBucketPerRank = 1'000'000;

ParameterBuffers::Options buffer_options(const SessionOptions& options, int shard) {
  const ParallelOptions& p = options.parallel;
  const int replicas = p.data * p.context;
  ParameterBuffers::Options buffers;
  if (options.training) {
    buffers.gradients = Optimizer::gradient_dtype(options.optimizer, options.model.dtype);
    buffers.narrow_wire =
        replicas > 1 && (p.grad_reduce_in_bf16 || buffers.gradients == DType::bf16);
  }
  buffers.shards = p.sharding == Sharding::none ? 1 : replicas / p.sharding_instances;
  buffers.shard = shard;
  if (buffers.narrow_wire) buffers.shard_parts = replicas / buffers.shards;
  buffers.shard_gradients = p.sharding >= Sharding::gradients;
  buffers.shard_values = p.sharding == Sharding::parameters;
  if (buffers.shard_gradients)
    buffers.bucket_elements = 1;  // every unit by itself
  else if (p.bucket_elements > 0)
    buffers.bucket_elements = p.bucket_elements;
  else if (replicas > 1)
    buffers.bucket_elements = std::max(kLeastBucket, kBucketPerRank * replicas);
  return buffers;
}

DeviceBatches::Limits batch_limits(const SessionOptions& options) {
  const bool learned = options.model.position_embedding == PositionEmbedding::learned_absolute;
  return {options.model.vocab_size,
          learned ? options.model.max_position_embeddings : positions_of(options)};
}

Session::Plan Session::plan(const SessionOptions& options, GptModel& model,
                            const Kernels& kernels) {
  Plan plan;
  plan.positions = positions_of(options);
  plan.workspace_bytes = model.workspace_bytes(kernels, rank_shape(options), plan.positions);
  const ParameterBuffers::Options buffers = buffer_options(options, 0);
  const BucketLayout layout = ParameterBuffers::layout_for(model.units(), buffers);
  plan.workspace_bytes =
      std::max(plan.workspace_bytes, kernels.sum_squares_workspace_bytes(layout.elements()));
  RunnerOptions& run = plan.runner;
  run.shape = rank_shape(options);
  // Earlier stages hold more microbatches; the first stage of all bounds them.
  const Schedule schedule = options.training
                                ? schedule_of(options, 0)
                                : forward_only({options.parallel.pipeline, options.microbatches});
  run.slots = slots_needed(schedule);
  run.microbatches = options.microbatches;
  run.recompute = options.recompute;
  run.split_backward = options.split_backward;
  run.training = options.training;
  return plan;
}

Session::Session(const SessionOptions& options, const Rank& rank)
    : options_(options),
      memory_(options.device, memory_limit(options)),
      stream_(options.device),
      trace_(options.device),
      kernels_(make_kernels(options.device, rank.threads, cuda_of_rank(options.cuda, rank.rank))),
      mesh_(options.parallel, rank.world, head_copies(options)),
      schedule_(schedule_of(options, mesh_.pipeline().rank())),
      evaluation_(forward_only({options.parallel.pipeline, options.microbatches})) {
  share_choices();  // those of rank 0's file
  const LayerSite site{options.model.dtype,
                       options.seed,
                       mesh_.tensor().rank(),
                       mesh_.tensor().size(),
                       options.parallel.sequence_parallel,
                       most_logits(options.device),
                       options.parallel.grid};
  const StagePart part =
      stage_part(options.model, mesh_.pipeline().size(), mesh_.pipeline().rank());
  model_.emplace(options.model, options.recompute, part, site, memory_, stream_,
                 positions_of(options));
  if (options.training) freeze(model_->parameters(), options.optimizer.frozen);
  Plan sizes = plan(options, *model_, *kernels_);
  sizes.runner.slots = slots_needed(options.training ? schedule_ : evaluation_);
  workspace_ = memory_.allocate(MemoryUse::workspace, DType::u8,
                                {static_cast<std::int64_t>(sizes.workspace_bytes)});
  context_.emplace(Context{*kernels_, stream_, mesh_, workspace_, &trace_});
  parameters_.emplace(model_->units(), *context_, memory_,
                      buffer_options(options, mesh_.shards().rank()));
  initialize();
  data_parallel_.emplace(*parameters_, *context_,
                         DataParallel::Options{options.parallel.sharding, options.microbatches,
                                               options.parallel.overlap_grad_reduce,
                                               options.parallel.overlap_param_gather});
  if (options.training) optimizer_.emplace(options.optimizer, *parameters_, *context_, memory_);
  runner_.emplace(*model_, *context_, memory_, sizes.runner);
  runner_->set_hooks(*data_parallel_);
  batches_.emplace(
      memory_, options.shape, options.microbatches, batch_limits(options),
      SampleShare{mesh_.grid_column().size(), mesh_.grid_column().rank(), options.parallel.data});
  const auto of_all = [&](std::int64_t each) {
    return memory_.allocate(MemoryUse::data, DType::f64, {mesh_.data().size() * each});
  };
  step_losses_ = of_all(options.microbatches);
  step_weights_ = of_all(options.microbatches);
  step_tokens_ = of_all(1);
  make_borders();
  executor_.emplace(*runner_, mesh_.pipeline(), stream_, borders_);
}

std::int64_t Session::shared_loss_bytes(const SessionOptions& options) {
  return std::int64_t{options.parallel.data} * (2 * options.microbatches + 1) *
         static_cast<std::int64_t>(sizeof(double));
}

// Bucket by bucket, so that of sharded parameters no rank ever has more than that.
void Session::initialize() {
  for (const Bucket& bucket : parameters_->layout().buckets()) {
    ParameterList all;
    for (const std::size_t i : bucket.parameters) all.push_back(parameters_->parameters()[i]);
    initialize_parameters(*context_, all, options_.seed);
    if (!parameters_->values().sharded) continue;
    const View whole = parameters_->whole_values(bucket);
    const std::int64_t length = whole.numel() / mesh_.shards().size();
    kernels_->copy(stream_, parameters_->own_values(bucket),
                   whole.slice(0, length * mesh_.shards().rank(), length));
    kernels_->fill(stream_, whole, 0);
  }
}

void Session::adopt_values() {
  data_parallel_->values_changed();
  if (optimizer_) optimizer_->adopt_values(*context_);
}

// What passes between neighbouring stages: the residual stream and its gradient, [N, hidden].
void Session::make_borders() {
  const bool first = mesh_.pipeline().rank() == 0;
  const bool last = mesh_.pipeline().rank() == mesh_.pipeline().size() - 1;
  const Shape rows = model_->rows().kept(rank_shape(options_), options_.model.hidden_size);
  const auto carve = [&](Carver& carver) {
    const auto take = [&](bool wanted) {
      return wanted ? carver.take(options_.model.dtype, rows) : View();
    };
    borders_ = {take(!first), take(!last), take(!first), take(!last)};
  };
  Carver measure;
  carve(measure);
  border_memory_ = memory_.allocate(MemoryUse::activations, DType::u8,
                                    {static_cast<std::int64_t>(measure.bytes())});
  Carver carver(border_memory_);
  carve(carver);
}

void Session::share_losses() {
  const View losses = runner_->loss_sums();
  if (!model_->head) kernels_->fill(stream_, losses, 0);
  mesh_.pipeline().all_reduce(losses, ReduceOp::sum, stream_)->wait(stream_);
  mesh_.grid_column().all_reduce(losses, ReduceOp::sum, stream_)->wait(stream_);
  gather_over_replicas(step_losses_, losses);
  gather_over_replicas(step_weights_, batches_->weights());
}

void Session::share_tokens(LossAverage average) {
  gather_over_replicas(step_tokens_, batches_->tokens());
  if (batches_->divides_by_tokens(average))
    kernels_->divide_by_sum(stream_, batches_->weights(), step_tokens_);
}

void Session::gather_over_replicas(const View& all, const View& own) {
  Communicator& replicas = mesh_.data();
  replicas.all_gather(all.reshape({replicas.size(), own.numel()}), own, stream_)->wait(stream_);
}

void Session::run_microbatches(bool training) {
  const Schedule& schedule = training ? schedule_ : evaluation_;
  if (!training) {
    data_parallel_->wait_for_values();
    data_parallel_->forget_buffers();
  }
  batches_->set_training(training);
  runner_->set_microbatches(batches_->microbatches());
  executor_->run(schedule);
  bool& chose = training ? chose_for_training_ : chose_for_evaluation_;
  if (std::exchange(chose, true) || !share_choices()) return;
  if (training) data_parallel_->begin_step();
  executor_->run(schedule);
}

bool Session::share_choices() {
  if (options_.device.kind == DeviceKind::cpu) return false;  // it has none
  stream_.synchronize();
  const std::vector<std::string> texts =
      gather_texts(mesh_.world(), kernels_->choices(), options_.device);
  if (std::ranges::count(texts, texts.front()) == std::ssize(texts)) return false;
  std::string all;
  for (const std::string& text : texts) all += text;
  kernels_->take_choices(all);
  return true;
}

}  // namespace tessera
