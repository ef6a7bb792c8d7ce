#include "tessera/config/resolve.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/options/limits.h"
#include "tessera/pipeline/stage_split.h"
#include "tessera/spec/batch_schedule.h"

namespace tessera {
namespace {

// Megatron's default: 4 h, or for a gated MLP two thirds of it in steps of 64.
std::int64_t default_ffn(const ModelOptions& model) {
  const std::int64_t h = model.hidden_size;
  if (h <= 0 || h > kMaxHidden) return 0;
  return model.gated_mlp ? 8 * h / 3 / 64 * 64 : 4 * h;
}

void fill(std::int64_t& value, std::int64_t derived) {
  if (value == 0) value = derived;
}

// What one model takes: the ranks that are not copies of each other. 0 when a size is out of range.
std::int64_t model_ranks(const ParallelOptions& p) {
  for (const int size : p.model_sizes())
    if (size < 1 || size > kMaxRanks) return 0;
  return p.model_ranks();
}

void resolve_layout(ParallelOptions& p, int ranks) {
  if (p.tensor_2d > 1 && p.tensor_2d <= kMaxGridSide && p.tensor == 1)
    p.tensor = p.tensor_2d * p.tensor_2d;
  if (p.expert_tensor == 0) p.expert_tensor = p.tensor;
  const std::int64_t model = model_ranks(p);
  const bool fits = model > 0 && ranks >= model && ranks % model == 0;
  p.data = fits ? static_cast<int>(ranks / model) : 1;
  if (p.fsdp)
    p.sharding = p.fsdp_strategy;
  else
    p.sharding = p.distributed_optimizer ? Sharding::optimizer : Sharding::none;
  // Layer by layer there is no other way.
  p.overlap_grad_reduce |= p.sharding >= Sharding::gradients;
  p.overlap_param_gather |= p.sharding == Sharding::parameters;
}

// How many parts of the model each pipeline rank has. What cannot be is left to the rules.
int chunks_of(const PipelineOptions& pipeline, int ranks, std::int64_t layers) {
  if (pipeline.schedule == ScheduleKind::zb_v) return 2;
  if (pipeline.virtual_stages > 0) return pipeline.virtual_stages;
  if (pipeline.layers_per_chunk > 0) {
    const std::int64_t stages = layers / pipeline.layers_per_chunk;
    return static_cast<int>(std::max<std::int64_t>(1, stages / ranks));
  }
  if (pipeline.layout.empty()) return 1;
  try {
    return std::max(1, stages_of_layout(pipeline.layout) / ranks);
  } catch (const InputError&) {
    return 1;
  }
}

void resolve_recompute(RecomputeOptions& recompute) {
  if (recompute.granularity == RecomputeGranularity::selective && !recompute.core_attention)
    recompute.granularity = RecomputeGranularity::none;
  recompute.core_attention = true;  // the other modules are kept in any case
}

void resolve_pipeline(Options& options) {
  const int ranks = options.parallel.pipeline;
  if (ranks < 1 || ranks > kMaxRanks) return;
  options.pipeline.chunks = chunks_of(options.pipeline, ranks, options.model.num_layers);
}

// What is malformed is left to the rules.
void resolve_length(Options& options) {
  TrainOptions& train = options.train;
  if (train.micro_batch_size > 0 && train.micro_batch_size <= kMaxMicroBatch &&
      train.step_batch_size_schedule.empty())
    fill(train.global_batch_size, train.micro_batch_size * options.parallel.data);
  try {
    const BatchSchedule sizes(train, options.data.seq_length);
    fill(train.global_batch_size, sizes.largest());
    if (train.train_samples > 0 && train.global_batch_size > 0)
      train.train_iters = sizes.length(0, train.train_samples).iterations;
  } catch (const InputError&) {
    if (train.train_samples > 0 && train.global_batch_size > 0)
      train.train_iters = train.train_samples / train.global_batch_size;
  }
}

// As long as the training, in the same unit.
void resolve_decay(ScheduleOptions& schedule, const TrainOptions& train) {
  if (schedule.decay_iters > 0 || schedule.decay_samples > 0) return;
  if (train.train_samples > 0)
    schedule.decay_samples = train.train_samples;
  else
    schedule.decay_iters = train.train_iters;
}

}  // namespace

void resolve_model(ModelOptions& model) {
  fill(model.ffn_hidden_size, default_ffn(model));
  if (model.num_experts > 0) fill(model.moe_ffn_hidden_size, model.ffn_hidden_size);
  if (model.moe_router_group_topk > 0)
    fill(model.moe_router_group_best,
         std::max<std::int64_t>(1, model.moe_router_topk / model.moe_router_group_topk));
  fill(model.num_query_groups, model.num_attention_heads);
  const auto is_size = [](std::int64_t size) { return size > 0 && size <= kMaxHeadSize; };
  if (model.multi_latent_attention && is_size(model.qk_head_dim) &&
      is_size(model.qk_pos_emb_head_dim))
    fill(model.kv_channels, model.qk_head_dim + model.qk_pos_emb_head_dim);
  const bool splits =
      model.num_attention_heads > 0 && model.hidden_size % model.num_attention_heads == 0;
  if (splits) fill(model.kv_channels, model.hidden_size / model.num_attention_heads);
}

std::int64_t tokenizer_vocabulary(const TokenizerOptions& tokenizer) {
  const std::int64_t size = tokenizer.vocab_size;
  if (tokenizer.kind == TokenizerKind::bytes) return kByteVocabulary;
  if (tokenizer.reads_files()) return size;
  return size > 0 && size < kMaxVocabulary ? size + 1 : 0;
}

void resolve(Options& options, std::optional<int> ranks) {
  resolve_layout(options.parallel, ranks.value_or(options.parallel.nproc));
  DataOptions& data = options.data;
  const TokenizerOptions& tokenizer = data.tokenizer;
  const bool more_than_bytes = tokenizer.kind == TokenizerKind::bytes && tokenizer.vocab_size > 0;
  fill(options.model.vocab_size,
       more_than_bytes ? tokenizer.vocab_size : tokenizer_vocabulary(tokenizer));
  fill(options.model.max_position_embeddings, data.seq_length);
  resolve_model(options.model);
  resolve_pipeline(options);
  resolve_recompute(options.recompute);
  resolve_length(options);
  options.train.finetune |= options.train.upcycle && options.train.load_hf.empty();
  resolve_decay(options.schedule, options.train);
  data.seed = options.train.seed;
  if (data.mock_data) data.split = "1,1,1";
}

}  // namespace tessera
