#include "tessera/spec/layer_spec.h"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

std::vector<std::string> loss_names(const AttentionLayerSpec&) { return {}; }
std::vector<std::string> loss_names(const LatentAttentionSpec&) { return {}; }
std::vector<std::string> loss_names(const MlpSpec&) { return {}; }
std::vector<std::string> loss_names(const MoeSpec& spec) {
  std::vector<std::string> names;
  for (const BalanceLossSpec& loss : spec.balance) names.emplace_back(loss_name(loss.kind));
  if (spec.z_loss > 0) names.emplace_back(kZLossName);
  return names;
}

}  // namespace

std::string sinks_name(const AttentionLayerSpec& spec) { return spec.name + ".sinks"; }

LinearSpec qkv_linear(const AttentionLayerSpec& spec) {
  return {{{spec.name + ".q", spec.heads * spec.head_size},
           {spec.name + ".k", spec.groups * spec.head_size, spec.groups},
           {spec.name + ".v", spec.groups * spec.head_size, spec.groups}},
          spec.hidden,
          spec.qkv_bias,
          spec.init_std};
}

LinearSpec output_linear(const AttentionLayerSpec& spec) {
  return {{{spec.name + ".out", spec.hidden}},
          spec.heads * spec.head_size,
          spec.output_bias,
          spec.output_init_std};
}

LinearSpec latent_linear(const LatentAttentionSpec& spec) {
  std::vector<LinearPart> parts{{spec.name + ".kv_down", spec.kv_rank + spec.rotary_size}};
  if (spec.q_rank > 0) parts.insert(parts.begin(), {spec.name + ".q_down", spec.q_rank});
  return {parts, spec.hidden, false, spec.init_std};
}

LinearSpec query_linear(const LatentAttentionSpec& spec) {
  const bool latent = spec.q_rank > 0;
  return {{{spec.name + (latent ? ".q_up" : ".q"), spec.heads * spec.head_size()}},
          latent ? spec.q_rank : spec.hidden,
          false,
          spec.init_std};
}

LinearSpec key_value_linear(const LatentAttentionSpec& spec) {
  return {{{spec.name + ".kv_up", spec.heads * (spec.plain_size + spec.value_size)}},
          spec.kv_rank,
          false,
          spec.init_std};
}

LinearSpec output_linear(const LatentAttentionSpec& spec) {
  return {{{spec.name + ".out", spec.hidden}},
          spec.heads * spec.value_size,
          spec.output_bias,
          spec.output_init_std};
}

LinearSpec up_linear(const MlpSpec& spec) {
  std::vector<LinearPart> parts{{spec.name + ".up", spec.ffn}};
  if (spec.gated) parts.insert(parts.begin(), {spec.name + ".gate", spec.ffn});
  return {parts, spec.hidden, spec.bias, spec.init_std};
}

LinearSpec down_linear(const MlpSpec& spec) {
  return {{{spec.name + ".down", spec.hidden}}, spec.ffn, spec.bias, spec.output_init_std};
}

std::string weight_name(const RouterLayerSpec& spec) { return spec.name + ".weight"; }
std::string linear_bias_name(const RouterLayerSpec& spec) { return spec.name + ".bias"; }
std::string bias_name(const RouterLayerSpec& spec) { return spec.name + ".expert_bias"; }
std::string shares_name(const RouterLayerSpec& spec) { return spec.name + ".expert_shares"; }

bool balances_globally(const MoeSpec& spec) {
  return std::ranges::any_of(
      spec.balance, [](const BalanceLossSpec& loss) { return loss.kind == MoeBalance::global; });
}

bool chooses_best(const RouterLayerSpec& spec) {
  return spec.choice.groups == 1 && !spec.bias_rate && !spec.choice.forced_balance;
}

// As Megatron rounds it.
std::int64_t expert_capacity(const ExpertCapacitySpec& spec, const RouterLayerSpec& router,
                             std::int64_t seq) {
  const auto pairs = static_cast<double>(seq * router.choice.topk);
  const double mean = pairs / static_cast<double>(router.experts);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(mean * spec.factor)));
}

std::int64_t padded_rows(const MoeSpec& spec, std::int64_t batch, std::int64_t seq,
                         std::int64_t rows) {
  if (!spec.capacity || !spec.capacity->pads) return 0;
  return std::min(rows, batch * expert_capacity(*spec.capacity, spec.router, seq));
}

bool needs_logits(const MoeSpec& spec) {
  return spec.z_loss > 0 || (!spec.balance.empty() && !chooses_best(spec.router));
}

std::string_view loss_name(MoeBalance kind) {
  switch (kind) {
    case MoeBalance::none: break;
    case MoeBalance::sequence: return "seq_load_balancing_loss";
    case MoeBalance::microbatch: return "load_balancing_loss";
    case MoeBalance::global: return "global_load_balancing_loss";
  }
  return "";
}

LayerNorms layer_norms(const LayerSpec& spec) {
  const auto before = [&](LayerNorms& norms) {
    norms.mixer = spec.name + ".attention_norm";
    if (spec.parallel != ParallelBlock::one_norm) norms.feed_forward = spec.name + ".mlp_norm";
  };
  const auto after = [&](LayerNorms& norms) {
    norms.mixer_output = spec.name + ".attention_post_norm";
    norms.feed_forward_output = spec.name + ".mlp_post_norm";
  };
  LayerNorms norms;
  switch (spec.norm_placement) {
    case NormPlacement::before: before(norms); break;
    case NormPlacement::after: after(norms); break;
    case NormPlacement::before_and_after:
      before(norms);
      after(norms);
      break;
  }
  return norms;
}

std::vector<std::string> extra_loss_names(const LayerSpec& spec) {
  const auto visitor = [](const auto& sublayer) { return loss_names(sublayer); };
  std::vector<std::string> all = std::visit(visitor, spec.mixer);
  for (std::string& name : std::visit(visitor, spec.feed_forward)) all.push_back(std::move(name));
  return all;
}

}  // namespace tessera
