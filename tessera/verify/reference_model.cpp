#include "tessera/verify/reference_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <regex>

#include "tessera/engine/session_options.h"
#include "tessera/verify/reference_pipeline.h"

namespace tessera {
namespace {

using std::int64_t;

constexpr int kLargestDegree = 4;
constexpr int64_t kBucket = 5000;  // elements, so that there are several buckets

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The smallest group in which key/value heads relate to ranks as they do: more of them, as many,
// fewer, or one for all.
int small_tensor(int tensor, int64_t groups) {
  if (tensor <= kLargestDegree) return tensor;
  return groups > 1 && groups < tensor ? 4 : 2;
}

int64_t small_groups(int64_t groups, int tensor, int small) {
  if (groups == 1) return 1;
  if (groups < tensor) return std::min<int64_t>(groups, small / 2);
  return groups == tensor ? small : 2 * small;
}

// Sizes that all differ.
void shrink_latents(ModelOptions& model) {
  if (!model.multi_latent_attention) return;
  model.q_lora_rank = std::min<int64_t>(model.q_lora_rank, 10);
  model.kv_lora_rank = std::min<int64_t>(model.kv_lora_rank, 7);
  model.qk_head_dim = 4;
  model.qk_pos_emb_head_dim = model.kv_channels - model.qk_head_dim;
  model.v_head_dim = std::min<int64_t>(model.v_head_dim, 5);
}

void shrink_heads(ModelOptions& model, int tensor, int small) {
  const int64_t per_group =
      std::min<int64_t>(2, model.num_attention_heads / model.num_query_groups);
  const bool square = model.kv_channels * model.num_attention_heads == model.hidden_size;
  model.num_query_groups = small_groups(model.num_query_groups, tensor, small);
  model.num_attention_heads = round_up(model.num_query_groups * per_group, small);
  model.kv_channels = 8;
  model.hidden_size = model.num_attention_heads * model.kv_channels + (square ? 0 : 8 * small);
  shrink_latents(model);
}

void shrink_model(ModelOptions& model, int tensor, int small) {
  const bool ragged = model.vocab_size % tensor != 0;
  shrink_heads(model, tensor, small);
  model.ffn_hidden_size = round_up(model.hidden_size + model.hidden_size / 2, small);
  model.vocab_size = 16 * small + (ragged ? 1 : 0);
  if (model.attention_window > 0) model.attention_window = 5;
  if (model.attention_chunk > 0) model.attention_chunk = 6;
  model.temperature_floor = std::min<int64_t>(model.temperature_floor, 3);
  model.window_first_layer = std::min<int64_t>(model.window_first_layer, 1);
  model.rope.original_max_position = std::min<int64_t>(model.rope.original_max_position, 64);
  model.dtype = DType::f64;
}

// Weights of a small model must be large for its layers to have a say in the loss.
constexpr double kInitStd = 0.2;

class Changes {
 public:
  void note(const char* name, int64_t before, int64_t after) {
    if (before != after) lines_.push_back(fmt::format("{} {} -> {}", name, before, after));
  }
  void note_model(const ModelOptions& a, const ModelOptions& b) {
    note("num-layers", a.num_layers, b.num_layers);
    note("hidden-size", a.hidden_size, b.hidden_size);
    note("ffn-hidden-size", a.ffn_hidden_size, b.ffn_hidden_size);
    note("num-experts", a.num_experts, b.num_experts);
    note("moe-ffn-hidden-size", a.moe_ffn_hidden_size, b.moe_ffn_hidden_size);
    note("moe-shared-expert-intermediate-size", a.moe_shared_ffn, b.moe_shared_ffn);
    note("moe-router-topk", a.moe_router_topk, b.moe_router_topk);
    note("moe-router-num-groups", a.moe_router_num_groups, b.moe_router_num_groups);
    note("moe-router-group-topk", a.moe_router_group_topk, b.moe_router_group_topk);
    note("moe-router-group-best", a.moe_router_group_best, b.moe_router_group_best);
    note("num-attention-heads", a.num_attention_heads, b.num_attention_heads);
    note("num-query-groups", a.num_query_groups, b.num_query_groups);
    note("kv-channels", a.kv_channels, b.kv_channels);
    note("q-lora-rank", a.q_lora_rank, b.q_lora_rank);
    note("kv-lora-rank", a.kv_lora_rank, b.kv_lora_rank);
    note("qk-head-dim", a.qk_head_dim, b.qk_head_dim);
    note("qk-pos-emb-head-dim", a.qk_pos_emb_head_dim, b.qk_pos_emb_head_dim);
    note("v-head-dim", a.v_head_dim, b.v_head_dim);
    note("vocabulary", a.vocab_size, b.vocab_size);
    note("window-size", a.attention_window, b.attention_window);
    note("attention-chunk-size", a.attention_chunk, b.attention_chunk);
    note("attention-temperature-floor", a.temperature_floor, b.temperature_floor);
  }
  void note_shape(const SessionOptions& a, const SessionOptions& b) {
    note("tensor-model-parallel-size", a.parallel.tensor, b.parallel.tensor);
    note("tensor-model-parallel-grid side", a.parallel.tensor_2d, b.parallel.tensor_2d);
    note("context-parallel-size", a.parallel.context, b.parallel.context);
    if (a.parallel.hierarchical_context != b.parallel.hierarchical_context)
      lines_.push_back("hierarchical-context-parallel-sizes -> 2 2");
    note("expert-model-parallel-size", a.parallel.expert, b.parallel.expert);
    if (a.model.num_experts > 0)
      note("expert-tensor-parallel-size", a.parallel.expert_tensor_size(),
           b.parallel.expert_tensor_size());
    note("data-parallel size", a.parallel.data, b.parallel.data);
    note("num-distributed-optimizer-instances", a.parallel.sharding_instances,
         b.parallel.sharding_instances);
    note("seq-length", a.shape.seq, b.shape.seq);
    note("micro-batch-size", a.shape.batch, b.shape.batch);
    note("microbatches", a.microbatches, b.microbatches);
    note("recompute-num-layers", a.recompute.num_layers, b.recompute.num_layers);
  }
  // What is not proved: it rounds, or is about memory alone.
  void note_dropped(const SessionOptions& a, const SessionOptions& b) {
    const auto dropped = [&](bool given, const char* flag) {
      if (given) lines_.push_back(fmt::format("{} dropped: all is f64", flag));
    };
    dropped(a.parallel.grad_reduce_in_bf16, "grad-reduce-in-bf16");
    dropped(a.optimizer.gradients != b.optimizer.gradients, "main-grads-dtype");
    dropped(a.optimizer.exp_avg != b.optimizer.exp_avg, "exp-avg-dtype");
    dropped(a.optimizer.exp_avg_sq != b.optimizer.exp_avg_sq, "exp-avg-sq-dtype");
    if (a.optimizer.cpu_offload) lines_.push_back("optimizer-cpu-offload dropped: there is no GPU");
    for (std::size_t i = 0; i < a.optimizer.frozen.size(); ++i)
      if (a.optimizer.frozen[i] != b.optimizer.frozen[i])
        lines_.push_back(fmt::format("freeze-parameters {} -> {}", a.optimizer.frozen[i],
                                     b.optimizer.frozen[i]));
  }
  void add(const std::vector<std::string>& lines) {
    lines_.insert(lines_.end(), lines.begin(), lines.end());
  }
  std::vector<std::string> lines() && { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

bool has_kind(const ParallelOptions& parallel, CpCommType kind) {
  return parallel.context > 1 && std::ranges::count(parallel.cp_comm_types, kind) > 0;
}

// Each rank that exchanges heads needs one.
void fit_exchanged_heads(SessionOptions& reference) {
  const ParallelOptions& p = reference.parallel;
  ModelOptions& model = reference.model;
  const int ranks = has_kind(p, CpCommType::a2a) ? p.context : p.context_heads();
  const std::int64_t heads = model.num_attention_heads / p.head_shards();
  const std::int64_t factor = (ranks + heads - 1) / heads;
  model.num_attention_heads *= factor;
  if (model.multi_latent_attention) model.num_query_groups *= factor;
  model.hidden_size *= factor;
}

std::vector<CpCommType> different_kinds(const ParallelOptions& parallel) {
  std::vector<CpCommType> different;
  for (const CpCommType kind : parallel.cp_comm_types)
    if (std::ranges::count(different, kind) == 0) different.push_back(kind);
  return different;
}

// Every kind that some layer has, in turn.
void shrink_kinds(SessionOptions& reference) {
  std::vector<CpCommType>& kinds = reference.parallel.cp_comm_types;
  if (kinds.size() == 1) return;
  const std::vector<CpCommType> different = different_kinds(reference.parallel);
  kinds.clear();
  for (std::int64_t i = 0; i < reference.model.num_layers; ++i)
    kinds.push_back(different[static_cast<std::size_t>(i) % different.size()]);
}

void shrink_layout(ParallelOptions& parallel, int64_t groups) {
  if (parallel.tensor_2d > 3) parallel.tensor_2d = 2;
  parallel.tensor = parallel.tensor_2d > 0 ? parallel.tensor_2d * parallel.tensor_2d
                                           : small_tensor(parallel.tensor, groups);
  parallel.context = std::min(parallel.context, 3);
  if (has_kind(parallel, CpCommType::a2a_p2p)) {
    parallel.context = 4;
    parallel.hierarchical_context = {2, 2};
  }
  if (parallel.data > kLargestDegree) {
    const bool groups_of_several = parallel.sharding_instances < parallel.data;
    parallel.data = parallel.sharding_instances > 1 ? kLargestDegree : 2 + parallel.data % 2;
    if (parallel.sharding_instances > 1)
      parallel.sharding_instances = groups_of_several ? 2 : parallel.data;
  }
}

// The relation between the two tensor-parallel sizes stays: whole experts, smaller, equal, larger.
int small_expert_tensor(const ParallelOptions& before, int tensor) {
  const int expert_tensor = before.expert_tensor_size();
  if (expert_tensor == 1) return 1;
  if (expert_tensor < before.tensor) return 2;
  return expert_tensor == before.tensor ? tensor : 2 * tensor;
}

// At most two groups of experts of which one or both are chosen, with two experts each.
void shrink_router(ModelOptions& model, std::int64_t experts) {
  model.num_experts = experts;
  std::int64_t eligible = experts;
  if (model.moe_router_num_groups > 0) {
    model.moe_router_num_groups = experts % 2 == 0 ? 2 : 1;
    const std::int64_t size = experts / model.moe_router_num_groups;
    model.moe_router_group_topk =
        std::min(model.moe_router_group_topk, model.moe_router_num_groups);
    model.moe_router_group_best = std::min(model.moe_router_group_best, size);
    eligible = size * model.moe_router_group_topk;
  }
  model.moe_router_topk = std::min(model.moe_router_topk, eligible);
}

// Layers with and without experts in the same proportion.
void shrink_layer_pattern(const std::vector<std::int64_t>& before, ModelOptions& model) {
  if (before.size() == 1) return;
  const int64_t layers = model.num_layers;
  model.moe_layer_freq.clear();
  for (int64_t i = 0; i < layers; ++i)
    model.moe_layer_freq.push_back(
        before[static_cast<std::size_t>(i * std::ssize(before) / layers)]);
  if (std::ranges::count(model.moe_layer_freq, 1) == 0) model.moe_layer_freq.back() = 1;
}

// At most two expert-parallel ranks with at most four experts each, two if a token goes to one.
// More data-parallel ranks are added until they hold whole sets of experts.
void shrink_experts(const ParallelOptions& before, SessionOptions& reference) {
  ModelOptions& model = reference.model;
  ParallelOptions& p = reference.parallel;
  p.expert_tensor = model.num_experts > 0 ? small_expert_tensor(before, p.tensor) : p.tensor;
  if (model.num_experts == 0) return;
  const std::int64_t of_a_rank = model.num_experts / p.expert;
  p.expert = std::min(p.expert, 2);
  const std::int64_t most = model.moe_router_topk > 1 ? 4 : 2;
  shrink_router(model, p.expert * std::min<std::int64_t>(of_a_rank, most));
  if (model.moe_shared_ffn > 0) model.moe_shared_ffn = round_up(model.hidden_size, p.tensor);
  model.moe_ffn_hidden_size = round_up(model.hidden_size, p.expert_tensor);
  const int set = p.expert * p.expert_tensor * p.sharding_instances;
  while (p.tensor * p.context * p.data % set != 0 || p.data % p.sharding_instances != 0) ++p.data;
}

void drop_narrow_types(SessionOptions& reference) {
  reference.optimizer.gradients = GradientType::accumulator;
  reference.optimizer.exp_avg = reference.optimizer.exp_avg_sq = MomentType::accumulator;
  reference.optimizer.cpu_offload = false;
  reference.parallel.grad_reduce_in_bf16 = false;
}

// Layers that the reference model does not have are others of it.
void shrink_frozen(SessionOptions& reference) {
  static const std::regex layer("^layers\\.([0-9]{1,9})(.*)$");
  for (std::string& pattern : reference.optimizer.frozen) {
    std::smatch parts;
    if (!std::regex_match(pattern, parts, layer)) continue;
    const std::int64_t number = std::stoll(parts[1]) % reference.model.num_layers;
    pattern = fmt::format("layers.{}{}", number, parts[2].str());
  }
}

}  // namespace

ReferenceModel make_reference_model(const Options& options) {
  const SessionOptions before = session_options(options, true);
  SessionOptions after = before;
  shrink_layout(after.parallel, before.model.num_query_groups);
  // With 2-D tensor parallelism, heads are shared by its columns alone.
  const bool tensor_2d = after.parallel.tensor_2d > 0;
  shrink_model(after.model, tensor_2d ? before.parallel.tensor_2d : before.parallel.tensor,
               tensor_2d ? after.parallel.tensor_2d : after.parallel.tensor);
  fit_exchanged_heads(after);
  shrink_experts(before.parallel, after);
  shrink_pipeline(after, std::ssize(different_kinds(before.parallel)));
  shrink_layer_pattern(before.model.moe_layer_freq, after.model);
  shrink_kinds(after);
  after.parallel.nproc = after.parallel.ranks();
  after.model.init_std = kInitStd;
  after.shape.seq = round_up(12, int64_t{after.parallel.tensor} *
                                     (after.parallel.context > 1 ? 2 * after.parallel.context : 1));
  after.model.max_position_embeddings = after.shape.seq;
  after.shape.batch =
      tensor_2d ? int64_t{2} * after.parallel.tensor_2d : std::min<int64_t>(before.shape.batch, 2);
  after.recompute.num_layers = std::min<int64_t>(after.recompute.num_layers, 2);
  after.optimizer.loss_scale = 1;  // f64 needs none
  after.parallel.bucket_elements = kBucket;
  after.memory_budget_gib = 0;
  drop_narrow_types(after);
  shrink_frozen(after);
  // Gradients that are zero in mathematics are noise in numbers, which Adam would blow up.
  after.optimizer.adam_eps = std::max(after.optimizer.adam_eps, 1e-3);
  after.device = {};
  Changes changes;
  changes.note_shape(before, after);
  changes.add(pipeline_changes(before, after));
  changes.note_model(before.model, after.model);
  changes.note_dropped(before, after);
  return {after, std::move(changes).lines()};
}

SessionOptions on_one_rank(SessionOptions session) {
  session.microbatches *= session.parallel.data;
  session.parallel = {};
  session.pipeline = {};
  return session;
}

}  // namespace tessera
