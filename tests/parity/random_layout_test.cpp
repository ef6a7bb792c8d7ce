// Random models in random layouts against one rank, in f64. Seeds are fixed: case n is always the
// same. TESSERA_LAYOUTS sets how many there are of each kind (else 10, or 400 with TESSERA_FULL).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/base/check.h"
#include "tessera/options/model_names.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

int number_of_cases() {
  if (const char* text = std::getenv("TESSERA_LAYOUTS")) return std::atoi(text);
  return std::getenv("TESSERA_FULL") != nullptr ? 400 : 10;
}

class Dice {
 public:
  explicit Dice(int seed) : key_(rng_key(11, RngPurpose::test, "layout " + std::to_string(seed))) {}
  int below(int n) {
    return static_cast<int>(philox_word(key_, thrown_++) % static_cast<std::uint32_t>(n));
  }
  bool coin() { return below(2) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }

 private:
  RngKey key_;
  std::uint64_t thrown_ = 0;
};

// How the ranks share the model.
void throw_layout(Dice& dice, ParallelOptions& parallel) {
  if (dice.below(4) == 0) {
    parallel.tensor_2d = dice.one_of({2, 3});
    parallel.tensor = parallel.tensor_2d * parallel.tensor_2d;
    return;
  }
  parallel.tensor = dice.one_of({1, 2, 3, 4, 6, 8});
  parallel.sequence_parallel = parallel.tensor > 1 && dice.coin();
}

// A model that they can share. `shares` is over how many heads and channels are split.
void throw_model(Dice& dice, ModelOptions& model, int shares) {
  const int per_rank = dice.one_of({1, 2});
  model.num_attention_heads = std::int64_t{shares} * per_rank;
  // Key/value heads: as many as ranks, more, fewer, or one.
  std::vector<int> groups;
  for (int g = 1; g <= model.num_attention_heads; ++g)
    if (model.num_attention_heads % g == 0 && (g % shares == 0 || shares % g == 0))
      groups.push_back(g);
  model.num_query_groups = groups[static_cast<std::size_t>(dice.below(int(groups.size())))];
  model.kv_channels = dice.one_of({4, 8});
  model.hidden_size = std::int64_t{shares} * dice.one_of({4, 8, 12});
  model.ffn_hidden_size = std::int64_t{shares} * dice.one_of({5, 8});
  model.vocab_size = 40 + dice.below(30);
  model.num_layers = 1 + dice.below(3);
  model.tie_embeddings = dice.coin();
  model.qkv_bias = dice.coin();
  model.attention_window = dice.coin() ? 0 : 5;
  model.attention_dropout = dice.coin() ? 0.0 : 0.2;
  model.hidden_dropout = dice.coin() ? 0.0 : 0.2;
  model.label_smoothing = dice.coin() ? 0.0 : 0.2;
  model.dtype = DType::f64;
}

void throw_recompute(Dice& dice, SessionOptions& options) {
  options.recompute.granularity = dice.one_of(
      {RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full});
  const bool full = options.recompute.granularity == RecomputeGranularity::full;
  options.recompute.method = dice.one_of({RecomputeMethod::uniform, RecomputeMethod::block});
  options.recompute.num_layers = 1 + dice.below(static_cast<int>(options.model.num_layers));
  const ParallelOptions& parallel = options.parallel;
  options.recompute.distribute_saved_activations = full && parallel.tensor > 1 &&
                                                   !parallel.sequence_parallel &&
                                                   parallel.tensor_2d == 0 && dice.coin();
  if (!full && dice.coin()) options.pipeline.schedule = ScheduleKind::zb_h1;
}

// How they share the batch, and what data-parallel ranks would hold twice.
void throw_data_ranks(Dice& dice, SessionOptions& options) {
  ParallelOptions& parallel = options.parallel;
  if (dice.coin()) return;
  parallel.data = dice.one_of({2, 3, 4});
  parallel.sharding =
      dice.one_of({Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters});
  if (parallel.sharding != Sharding::none && parallel.data % 2 == 0)
    parallel.sharding_instances = dice.one_of({1, 2});
  parallel.overlap_grad_reduce = dice.coin();
  parallel.overlap_param_gather = dice.coin();
  parallel.bucket_elements = dice.one_of({1, 2'000, 100'000});
  if (dice.coin())
    options.optimizer.frozen = {dice.one_of({"embedding.*", "layers.0.*", "*norm*"})};
  options.optimizer.cpu_offload = dice.coin();
  options.optimizer.offload_window = 500;
}

// How many layers each stage has: any number, none included.
std::string throw_stages(Dice& dice, int stages, int layers) {
  std::vector<int> counts(static_cast<std::size_t>(stages));
  for (int i = 0; i < layers; ++i) ++counts[static_cast<std::size_t>(dice.below(stages))];
  std::string text = "E";
  for (std::size_t i = 0; i < counts.size(); ++i)
    text += (i > 0 ? "|" : "") + std::string(static_cast<std::size_t>(counts[i]), 't');
  return text + "L";
}

void throw_pipeline(Dice& dice, SessionOptions& options) {
  PipelineOptions& pipeline = options.pipeline;
  const bool split = pipeline.schedule == ScheduleKind::zb_h1;  // as was thrown before
  pipeline.schedule =
      split ? dice.one_of({ScheduleKind::zb_h1, ScheduleKind::zb_v, ScheduleKind::search})
            : dice.one_of(
                  {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved});
  if (pipeline.schedule == ScheduleKind::zb_v) pipeline.chunks = 2;
  if (pipeline.schedule == ScheduleKind::interleaved) pipeline.chunks = dice.one_of({2, 3});
  pipeline.memory_limit = 1 + dice.below(5);
  const int ranks = options.parallel.pipeline = dice.one_of({2, 3, 4});
  options.microbatches = 1 + dice.below(7);
  if (pipeline.chunks > 1 && pipeline.schedule == ScheduleKind::interleaved) {
    options.microbatches = ranks * dice.one_of({1, 2});
    pipeline.microbatch_group = options.microbatches;
  }
  const int layers = static_cast<int>(options.model.num_layers = ranks + dice.below(4));
  for (bool fits = false; !fits;) {
    pipeline.layout = throw_stages(dice, ranks * pipeline.chunks, layers);
    try {
      split_stages(model_outline(options.model), pipeline, ranks);
      fits = true;
    } catch (const InputError&) {  // some rank has nothing
    }
  }
}

// What the ranks share besides layers, batch and optimizer state.
enum class LayoutKind { plain, pipelines, context, experts, latent, forms };

// With these, the other axes are kept short.
void throw_short_layout(Dice& dice, ParallelOptions& parallel) {
  parallel.tensor = dice.one_of({1, 1, 2});
  parallel.sequence_parallel = parallel.tensor > 1 && dice.coin();
  if (dice.below(6) != 0) return;
  parallel.tensor_2d = 2;
  parallel.tensor = 4;
  parallel.sequence_parallel = false;
}

void throw_kinds(Dice& dice, SessionOptions& options) {
  // One kind of exchange for all layers, or one for each; heads are exchanged if there are enough.
  ParallelOptions& p = options.parallel;
  const std::int64_t heads = options.model.num_attention_heads / p.head_shards();
  std::vector<CpCommType> possible{CpCommType::p2p, CpCommType::all_gather};
  if (heads >= p.context) possible.push_back(CpCommType::a2a);
  if (p.context == 4 && heads >= 2) possible.push_back(CpCommType::a2a_p2p);
  if (p.context == 4) p.hierarchical_context = {2, 2};
  p.cp_comm_types.clear();
  const std::int64_t kinds = dice.coin() ? 1 : options.model.num_layers;
  for (std::int64_t i = 0; i < kinds; ++i)
    p.cp_comm_types.push_back(
        possible[static_cast<std::size_t>(dice.below(static_cast<int>(possible.size())))]);
}

void throw_context(Dice& dice, SessionOptions& options) {
  options.parallel.context = dice.one_of({2, 3, 4});
  options.shape.seq *= 2 * std::int64_t{options.parallel.context};
  options.model.max_position_embeddings = options.shape.seq;
  options.documents = dice.coin();
  throw_kinds(dice, options);
}

// A 0 or 1 for each layer, and at least one 1.
std::vector<std::int64_t> throw_expert_layers(Dice& dice, std::int64_t layers) {
  std::vector<std::int64_t> pattern;
  for (std::int64_t i = 0; i < layers; ++i) pattern.push_back(dice.below(2));
  pattern[static_cast<std::size_t>(dice.below(static_cast<int>(layers)))] = 1;
  return pattern;
}

void throw_router(Dice& dice, ModelOptions& model, int tensor) {
  const std::int64_t experts = model.num_experts;
  model.mlp_bias = false;
  model.moe_router_score = dice.coin() ? RouterScore::softmax : RouterScore::sigmoid;
  model.moe_expert_bias = model.moe_router_score == RouterScore::sigmoid && dice.coin();
  model.moe_bias_update_rate = 0.05;
  if (experts % 2 == 0 && dice.coin()) {
    model.moe_router_num_groups = 2;
    model.moe_router_group_topk = dice.one_of({1, 2});
    model.moe_router_group_best = dice.coin() ? 1 : std::min<std::int64_t>(2, experts / 2);
  }
  const std::int64_t eligible =
      model.moe_router_num_groups > 0 ? experts / 2 * model.moe_router_group_topk : experts;
  model.moe_router_topk = std::min<std::int64_t>(eligible, dice.one_of({1, 2, 3, 12}));
  model.moe_router_pre_softmax = model.moe_router_topk == 1 || dice.coin();
  model.moe_router_scaling_factor = dice.coin() ? 1 : 2.5;
  if (dice.coin()) model.moe_shared_ffn = std::int64_t{tensor} * 6;
  model.moe_shared_gate = model.moe_shared_ffn > 0 && dice.coin();
  if (dice.coin()) model.moe_aux_loss_coeff = {0.1};
  if (dice.coin())
    model.moe_balance = {MoeBalance::microbatch, MoeBalance::sequence, MoeBalance::global};
  if (dice.coin()) model.moe_input_jitter = 0.1;
  if (dice.coin()) model.moe_capacity_factor = dice.one_of({1, 2}) * 0.75;
  if (model.moe_capacity_factor > 0 && dice.coin()) model.moe_drop_policy = DropPolicy::position;
  if (dice.coin()) model.moe_z_loss = 0.01;
  model.moe_pad_to_capacity = model.moe_capacity_factor > 0 && model.moe_z_loss > 0;
}

// More data-parallel ranks are added until they hold whole sets of experts.
void throw_experts(Dice& dice, SessionOptions& options) {
  ParallelOptions& p = options.parallel;
  ModelOptions& model = options.model;
  p.sequence_parallel = p.tensor > 1;
  options.recompute.distribute_saved_activations &= !p.sequence_parallel;
  p.expert = dice.one_of({1, 2, 3, 4});
  p.expert_tensor = dice.one_of({1, 2, p.tensor});
  p.token_dispatcher = dice.one_of(
      {TokenDispatcher::alltoall, TokenDispatcher::alltoall, TokenDispatcher::allgather});
  model.num_experts = std::int64_t{p.expert} * dice.one_of({2, 3});
  model.moe_ffn_hidden_size = std::int64_t{p.expert_tensor} * dice.one_of({3, 8});
  if (dice.coin()) model.moe_layer_freq = throw_expert_layers(dice, model.num_layers);
  throw_router(dice, model, p.tensor);
  if (dice.coin()) {
    p.context = 2;
    options.model.max_position_embeddings = options.shape.seq *= 4;
    throw_kinds(dice, options);
  }
  const int set = p.expert * p.expert_tensor * p.sharding_instances;
  while (p.tensor * p.context * p.data % set != 0 || p.data % p.sharding_instances != 0) ++p.data;
}

// Latents, heads and values of any sizes, then one of the other axes.
void throw_latent(Dice& dice, SessionOptions& options) {
  ModelOptions& model = options.model;
  model.multi_latent_attention = true;
  model.position_embedding = PositionEmbedding::rope;
  model.normalization = Normalization::rms_norm;
  model.qkv_bias = false;
  model.qk_norm = QkNorm::per_head;
  model.num_query_groups = model.num_attention_heads;
  model.q_lora_rank = dice.one_of({0, 5, 12});
  model.kv_lora_rank = dice.one_of({3, 8});
  model.qk_head_dim = dice.one_of({3, 4, 8});
  model.qk_pos_emb_head_dim = dice.one_of({2, 4});
  model.v_head_dim = dice.one_of({3, 6, 12});
  model.kv_channels = model.qk_head_dim + model.qk_pos_emb_head_dim;
  switch (dice.below(4)) {
    case 0: return;
    case 1: return throw_pipeline(dice, options);
    case 2: return throw_context(dice, options);
    default: return throw_experts(dice, options);
  }
}

void throw_mtp(Dice& dice, SessionOptions& options) {
  ModelOptions& model = options.model;
  if (options.parallel.tensor_2d > 0 || dice.below(3) > 0) return;
  if (model.position_embedding == PositionEmbedding::learned_absolute)
    model.position_embedding = PositionEmbedding::none;
  model.mtp_num_layers = dice.one_of({1, 2});
  model.mtp_loss_scaling_factor = 0.5;
}

// Sinks, chunks, norms without weights, temperatures and limits, then one of the other axes.
void throw_forms(Dice& dice, SessionOptions& options) {
  ModelOptions& model = options.model;
  model.normalization = Normalization::rms_norm;
  model.position_embedding = PositionEmbedding::rope;
  model.qk_norm = dice.one_of({QkNorm::none, QkNorm::per_head, QkNorm::l2});
  model.softmax_type = dice.one_of({SoftmaxType::learnable, SoftmaxType::learnable,
                                    SoftmaxType::off_by_one, SoftmaxType::vanilla});
  model.attention_chunk = dice.one_of({0, 3, 5});
  model.no_rope_freq = model.num_layers > 1 && dice.coin() ? 2 : 0;
  if (model.no_rope_freq > 0) model.temperature_scale = dice.one_of({0.0, 0.5});
  model.temperature_floor = dice.one_of({1, 4});
  model.gated_mlp = true;
  model.activation = dice.one_of({Activation::quick_gelu, Activation::silu});
  model.activation_clamp = dice.one_of({0.0, 0.6});
  model.glu_offset = dice.one_of({0, 1});
  switch (dice.below(4)) {
    case 0: return;
    case 1: return throw_pipeline(dice, options);
    case 2: return throw_context(dice, options);
    default: break;
  }
  if (options.parallel.tensor_2d > 0) return;
  throw_experts(dice, options);
  if (dice.coin()) {
    model.mlp_bias = true;
    model.moe_shared_ffn = 0;
    model.moe_shared_gate = false;
  } else {
    model.moe_probs_on_input = dice.coin();
  }
}

SessionOptions throw_case(int seed, LayoutKind kind) {
  Dice dice(seed + 10'000 * static_cast<int>(kind));
  SessionOptions options = test::tiny_session(dice.one_of({"gpt", "llama", "qwen3"}));
  if (kind == LayoutKind::plain)
    throw_layout(dice, options.parallel);
  else
    throw_short_layout(dice, options.parallel);
  if (kind == LayoutKind::experts || kind == LayoutKind::latent) options.parallel.tensor_2d = 0;
  const int shares =
      options.parallel.tensor_2d > 0 ? options.parallel.tensor_2d : options.parallel.tensor;
  throw_model(dice, options.model, shares);
  if (options.parallel.tensor_2d > 0)  // a grid's columns hold key/value heads, none of them twice
    options.model.num_query_groups = options.model.num_attention_heads;
  // With one key the gradient of queries and keys is zero in mathematics, and rounding noise is all
  // there is to compare.
  const std::int64_t seq = std::int64_t{options.parallel.tensor} * dice.one_of({1, 2, 3});
  options.shape.seq = std::max<std::int64_t>(2, seq);
  options.shape.batch = std::int64_t{std::max(1, options.parallel.tensor_2d)} * dice.one_of({1, 2});
  options.model.max_position_embeddings = options.shape.seq;
  options.microbatches = 1 + dice.below(3);
  throw_recompute(dice, options);
  throw_data_ranks(dice, options);
  if (kind != LayoutKind::plain) options.parallel.data = std::min(options.parallel.data, 2);
  if (kind == LayoutKind::pipelines) throw_pipeline(dice, options);
  if (kind == LayoutKind::pipelines && dice.below(3) == 0) {
    options.parallel.context = 2;
    options.model.max_position_embeddings = options.shape.seq *= 4;
    throw_kinds(dice, options);
  }
  if (kind == LayoutKind::context) throw_context(dice, options);
  if (kind == LayoutKind::experts) throw_experts(dice, options);
  if (kind == LayoutKind::latent) throw_latent(dice, options);
  if (kind == LayoutKind::forms) throw_forms(dice, options);
  options.optimizer.adam_eps = 1e-3;
  throw_mtp(dice, options);
  return options;
}

SessionOptions on_one_rank(SessionOptions options) {
  options.microbatches *= options.parallel.data;
  options.parallel = {};
  options.recompute = {};
  options.pipeline = {};
  return options;
}

std::string text_of(int seed, const SessionOptions& o) {
  return fmt::format(
      "case {}: context {} tensor {} grid {} sp {} data {} sharding {} instances {} heads {} "
      "groups {} seq {} "
      "batch {} layers {} pipeline {} schedule {} chunks {} microbatches {} layout {} experts {} "
      "over {} x {} by {}, {} per token of {} groups, shared {} latents {} {} softmax {} chunk {} "
      "norm {} biases {} on input {} mtp {}",
      seed, o.parallel.context, o.parallel.tensor, o.parallel.tensor_2d,
      o.parallel.sequence_parallel, o.parallel.data, static_cast<int>(o.parallel.sharding),
      o.parallel.sharding_instances, o.model.num_attention_heads, o.model.num_query_groups,
      o.shape.seq, o.shape.batch, o.model.num_layers, o.parallel.pipeline,
      static_cast<int>(o.pipeline.schedule), o.pipeline.chunks, o.microbatches, o.pipeline.layout,
      o.model.num_experts, o.parallel.expert, o.parallel.expert_tensor,
      to_string(o.parallel.token_dispatcher), o.model.moe_router_topk,
      o.model.moe_router_num_groups, o.model.moe_shared_ffn,
      o.model.multi_latent_attention ? o.model.q_lora_rank : -1, o.model.kv_lora_rank,
      to_string(o.model.softmax_type), o.model.attention_chunk, to_string(o.model.qk_norm),
      o.model.mlp_bias, o.model.moe_probs_on_input, o.model.mtp_num_layers);
}

void expect_equal_one_rank(LayoutKind kind) {
  for (int seed = 0; seed < number_of_cases(); ++seed) {
    const SessionOptions options = throw_case(seed, kind);
    SCOPED_TRACE(text_of(seed, options));
    test::expect_same_layouts(test::run_layout(options, 4),
                              test::run_layout(on_one_rank(options), 4), {});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RandomLayouts, EqualOneRank) { expect_equal_one_rank(LayoutKind::plain); }

TEST(RandomLayouts, PipelinesEqualOneRank) { expect_equal_one_rank(LayoutKind::pipelines); }

TEST(RandomLayouts, ContextEqualsOneRank) { expect_equal_one_rank(LayoutKind::context); }

TEST(RandomLayouts, ExpertsEqualOneRank) { expect_equal_one_rank(LayoutKind::experts); }

TEST(RandomLayouts, LatentAttentionEqualsOneRank) { expect_equal_one_rank(LayoutKind::latent); }

TEST(RandomLayouts, FormsOfAttentionEqualOneRank) { expect_equal_one_rank(LayoutKind::forms); }

}  // namespace
}  // namespace tessera
