#include <algorithm>

#include "tessera/config/resolve.h"
#include "tessera/config/rules/rules.h"
#include "tessera/options/limits.h"
#include "tessera/options/model_names.h"
#include "tessera/spec/parameter_table.h"

namespace tessera::config {
namespace {

void attention_rules(const ModelOptions& m, Problems& problems) {
  const bool has_heads = m.num_attention_heads > 0;
  problems.require(m.kv_channels > 0 || !has_heads || m.hidden_size % m.num_attention_heads == 0,
                   "--hidden-size {} is not a multiple of --num-attention-heads {}: change one of "
                   "them, or set --kv-channels",
                   m.hidden_size, m.num_attention_heads);
  problems.require(m.num_query_groups <= 0 || m.num_attention_heads % m.num_query_groups == 0,
                   "--num-attention-heads {} is not a multiple of --num-query-groups {}: every "
                   "key/value head serves the same number of query heads",
                   m.num_attention_heads, m.num_query_groups);
  problems.require(m.qk_norm == QkNorm::none || m.normalization == Normalization::rms_norm,
                   "--qk-layernorm is an RMSNorm here, but --normalization is LayerNorm: set "
                   "--normalization RMSNorm, or drop --qk-layernorm");
  problems.require(
      m.qk_norm != QkNorm::l2 || m.position_embedding == PositionEmbedding::rope,
      "--qk-norm-type l2 normalises in layers with RoPE, but --position-embedding-type "
      "is {}: drop one of them",
      to_string(m.position_embedding));
  problems.require(
      m.temperature_scale == 0 || m.kv_channels % 2 == 0,
      "--attention-temperature-scale scales pairs of channels, but a head has {}: make "
      "it even (--kv-channels, --hidden-size)",
      m.kv_channels);
  problems.require(m.window_first_layer <= m.num_layers,
                   "--window-first-layer {} is beyond --num-layers {}", m.window_first_layer,
                   m.num_layers);
  problems.require(m.window_skip_freq <= m.num_layers,
                   "--window-attn-skip-freq {} has no effect: there are only {} layers",
                   m.window_skip_freq, m.num_layers);
}

void latent_attention_rules(const ModelOptions& m, Problems& problems) {
  if (!m.multi_latent_attention) return;
  problems.require(m.num_query_groups == m.num_attention_heads,
                   "--multi-latent-attention computes keys and values of every head, but there are "
                   "{} key/value heads for {} heads: drop --group-query-attention",
                   m.num_query_groups, m.num_attention_heads);
  problems.require(m.position_embedding == PositionEmbedding::rope,
                   "--multi-latent-attention has channels for RoPE, but --position-embedding-type "
                   "is {}: add --position-embedding-type rope",
                   to_string(m.position_embedding));
  problems.require(m.qk_norm == QkNorm::per_head,
                   "--multi-latent-attention normalises its latent vectors{}: add --qk-layernorm",
                   m.qk_norm == QkNorm::none ? "" : ", not all heads together");
  problems.require(!m.qkv_bias,
                   "--multi-latent-attention has no biases before attention: add "
                   "--disable-bias-linear, without --add-qkv-bias");
}

// What RoPE rotates a part of.
std::int64_t rotary_head_size(const ModelOptions& m) {
  return m.multi_latent_attention ? m.qk_pos_emb_head_dim : m.kv_channels;
}

void rope_rules(const ModelOptions& m, Problems& problems) {
  if (m.position_embedding != PositionEmbedding::rope) return;
  const RopeOptions& rope = m.rope;
  problems.require(m.no_rope_freq <= m.num_layers,
                   "--no-rope-freq {} has no effect: there are only {} layers", m.no_rope_freq,
                   m.num_layers);
  const std::int64_t size = rotary_head_size(m);
  const bool in_range = size > 0 && size <= kMaxHeadSize && rope.percent > 0 && rope.percent <= 1;
  const double part = in_range ? static_cast<double>(size) * rope.percent : 0;
  const auto rotated = static_cast<std::int64_t>(part);
  problems.require(
      !in_range || (rotated > 0 && rotated % 2 == 0),
      "RoPE rotates pairs, but --rotary-percent {} of a head of {} is {}: make it even "
      "({}, --rotary-percent)",
      rope.percent, size, rotated,
      m.multi_latent_attention ? "--qk-pos-emb-head-dim" : "--kv-channels, --hidden-size");
  problems.require(
      rope.scaling != RopeScaling::llama3 || rope.high_freq_factor >= rope.low_freq_factor,
      "--rope-high-freq-factor {} must not be below --rope-low-freq-factor {}",
      rope.high_freq_factor, rope.low_freq_factor);
  problems.require(rope.scaling != RopeScaling::yarn || rope.beta_fast > rope.beta_slow,
                   "--rope-beta-fast {} must be above --rope-beta-slow {}", rope.beta_fast,
                   rope.beta_slow);
}

// Sizes out of range are refused by their flags.
bool sizes_in_range(const ModelOptions& m) {
  const auto within = [](std::int64_t size, std::int64_t most) {
    return size >= 0 && size <= most;
  };
  return within(m.num_layers, kMaxLayers) && within(m.hidden_size, kMaxHidden) &&
         within(m.ffn_hidden_size, kMaxFfn) && within(m.num_experts, kMaxExperts) &&
         within(m.moe_ffn_hidden_size, kMaxFfn) && within(m.moe_shared_ffn, kMaxFfn) &&
         within(m.num_attention_heads, kMaxHeads) && within(m.num_query_groups, kMaxHeads) &&
         within(m.kv_channels, kMaxHeadSize) && within(m.q_lora_rank, kMaxHidden) &&
         within(m.kv_lora_rank, kMaxHidden) && within(m.qk_head_dim, kMaxHeadSize) &&
         within(m.qk_pos_emb_head_dim, kMaxHeadSize) && within(m.v_head_dim, kMaxHeadSize) &&
         within(m.mtp_num_layers, kMaxMtpLayers) && within(m.vocab_size, kMaxVocabulary) &&
         within(m.max_position_embeddings, kMaxPositions);
}

void parameter_count_rules(const ModelOptions& m, Problems& problems) {
  if (!sizes_in_range(m)) return;
  const double parameters = parameter_count(model_spec(m));
  problems.require(
      parameters <= kMaxParameters,
      "a model of about {:.2g} parameters is more than the {:.0g} that can be counted: "
      "reduce --num-layers ({}), --hidden-size ({}) or {}",
      parameters, kMaxParameters, m.num_layers, m.hidden_size,
      m.num_experts > 0 ? fmt::format("--moe-ffn-hidden-size ({}) or --num-experts ({})",
                                      m.moe_ffn_hidden_size, m.num_experts)
                        : fmt::format("--ffn-hidden-size ({})", m.ffn_hidden_size));
}

void block_rules(const ModelOptions& m, Problems& problems) {
  problems.require(
      m.parallel_block == ParallelBlock::none || m.norm_placement == NormPlacement::before,
      "--parallel-block {} has norms of the layer's input only, but --norm-placement is {}: drop "
      "one of them",
      to_string(m.parallel_block), to_string(m.norm_placement));
}

void mtp_rules(const ModelOptions& m, Problems& problems) {
  problems.require(
      m.mtp_num_layers == 0 || m.position_embedding != PositionEmbedding::learned_absolute,
      "--mtp-num-layers {} looks up word embeddings alone, but --position-embedding-type is "
      "learned_absolute: set rope or none",
      m.mtp_num_layers);
}

}  // namespace

void model_rules(const ModelOptions& model, Problems& problems) {
  attention_rules(model, problems);
  latent_attention_rules(model, problems);
  block_rules(model, problems);
  rope_rules(model, problems);
  mtp_rules(model, problems);
  parameter_count_rules(model, problems);
}

void fit_rules(const Options& options, Problems& problems) {
  const ModelOptions& m = options.model;
  problems.require(options.data.seq_length <= m.max_position_embeddings,
                   "--seq-length {} is more than --max-position-embeddings {}, where the model's "
                   "positions end: change one of them",
                   options.data.seq_length, m.max_position_embeddings);
  problems.require(
      options.train.dump_step.empty() || (m.attention_dropout == 0 && m.hidden_dropout == 0),
      "--dump-step is for comparing with another framework, which cannot draw the same dropout "
      "masks: give --attention-dropout 0 --hidden-dropout 0 (they are {} and {})",
      m.attention_dropout, m.hidden_dropout);
  problems.require(
      options.train.dump_step.empty() || options.optimizer.frozen.empty(),
      "--dump-step writes every gradient, and frozen parameters have none: drop one of "
      "--dump-step and --freeze-parameters");
  problems.require(
      options.train.dump_step.empty() || options.parallel.data == 1,
      "--dump-step writes the batch of one data-parallel rank, but there are {}: start "
      "one copy of the model",
      options.parallel.data);
  problems.require(
      options.train.dump_step.empty() || m.mtp_num_layers == 0,
      "--dump-step is for comparing with transformers, which has no multi-token prediction: drop "
      "one of --dump-step and --mtp-num-layers");
  const std::int64_t tokens = tokenizer_vocabulary(options.data.tokenizer);
  problems.require(tokens <= m.vocab_size,
                   "the tokenizer has {} tokens (end-of-document included), but the model's "
                   "vocabulary {}: raise --padded-vocab-size, or, for a model that is loaded, give "
                   "its own tokens: --tokenizer-type NullTokenizer --vocab-size {}",
                   tokens, m.vocab_size, std::max<std::int64_t>(m.vocab_size - 1, 1));
}

}  // namespace tessera::config
