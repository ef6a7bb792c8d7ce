#include "tessera/checkpoint/hf/families/moe_style.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_limits.h"
#include "tessera/spec/model_spec.h"

namespace tessera {
namespace {

// InputError if two names have two values.
std::string_view count_key(const JsonFields& config, const HfExpertKeys& keys) {
  if (keys.other_count.empty() || !config.has(keys.other_count)) return keys.count;
  check_input(
      !config.has(keys.count) || config.json()[keys.count] == config.json()[keys.other_count],
      "{}: {} and {} differ: expected one of them", config.what(), keys.count, keys.other_count);
  return keys.other_count;
}

void check_router(const JsonFields& config, const ModelOptions& options, const HfExpertKeys& keys,
                  bool normalized) {
  const std::int64_t experts = options.num_experts, topk = options.moe_router_topk;
  check_input(options.num_layers * experts <= kMaxHfExpertsOfAllLayers,
              "{}: {} layers of {} experts: all layers together may have {}", config.what(),
              options.num_layers, experts, kMaxHfExpertsOfAllLayers);
  check_input(topk <= experts, "{}: num_experts_per_tok {} is more than {} = {}", config.what(),
              topk, keys.count, experts);
  check_input(topk > 1 || !normalized,
              "{}: num_experts_per_tok = 1 with weights that are divided by their sum is not "
              "supported: the weight would always be 1, and the router would learn nothing",
              config.what());
  check_input(!config.boolean("output_router_logits", false),
              "{}: output_router_logits = true is not supported: transformers then adds a "
              "balancing loss over all layers together. Set it to false, and train with "
              "--moe-aux-loss-coeff, which balances each layer",
              config.what());
}

void add_shared_expert(HfTensorList& list, const ModelOptions& options, const std::string& hf,
                       const std::string& ours, const HfExpertNames& names) {
  const std::int64_t h = options.hidden_size, f = options.moe_shared_ffn;
  const auto add = [&](std::string_view hf_name, const char* name, const Shape& shape) {
    list.add(fmt::format("{}{}.{}.weight", hf, names.shared, hf_name), shape,
             fmt::format("{}shared.{}.weight", ours, name));
  };
  if (options.gated_mlp) add(names.gate, "gate", {f, h});
  add(names.up, "up", {f, h});
  add(names.down, "down", {h, f});
  if (options.moe_shared_gate)
    list.add(fmt::format("{}{}.weight", hf, names.shared_gate), {1, h},
             ours + "shared_gate.weight");
}

void add_each_expert(HfTensorList& list, const ModelOptions& options, const std::string& hf,
                     const std::string& ours, const HfExpertNames& names) {
  const std::int64_t h = options.hidden_size, f = options.moe_ffn_hidden_size;
  for (std::int64_t i = 0; i < options.num_experts; ++i) {
    const std::string expert = fmt::format("{}{}.{}.", hf, names.experts, i);
    const auto add = [&](std::string_view hf_name, const char* name, const Shape& shape) {
      list.add_expert(fmt::format("{}{}.weight", expert, hf_name), shape,
                      fmt::format("{}experts.{}.weight", ours, name), i);
    };
    if (options.gated_mlp) add(names.gate, "gate", {f, h});
    add(names.up, "up", {f, h});
    add(names.down, "down", {h, f});
  }
}

void add_stacks(HfTensorList& list, const ModelOptions& options, const std::string& hf,
                const std::string& ours, const HfExpertNames& names) {
  const std::int64_t h = options.hidden_size, f = options.moe_ffn_hidden_size;
  std::vector<HfLinear> first;
  if (options.gated_mlp) first.push_back({ours + "experts.gate", f});
  first.push_back({ours + "experts.up", f});
  const HfLinear last{ours + "experts.down", h};
  const HfTensorList::Layout layout{names.stacks_transposed, names.gate_interleaved ? f : 1};
  const HfTensorList::Layout plain{names.stacks_transposed};
  const std::string gate_up = fmt::format("{}{}", hf, names.gate_up_stack);
  const std::string down = fmt::format("{}{}", hf, names.down_stack);
  list.add_stack(gate_up, first, h, layout);
  if (options.mlp_bias) list.add_bias_stack(gate_up + "_bias", first, layout);
  list.add_stack(down, {last}, f, plain);
  if (options.mlp_bias) list.add_bias_stack(down + "_bias", {last}, plain);
}

}  // namespace

void read_experts(const JsonFields& config, ModelOptions& options, const HfExpertKeys& keys,
                  bool normalized) {
  options.num_experts = config.integer(count_key(config, keys), keys.experts, 2, kMaxHfExperts);
  options.moe_router_topk = config.integer("num_experts_per_tok", keys.per_token, 1, kMaxHfExperts);
  options.moe_router_pre_softmax = !normalized;
  check_router(config, options, keys, normalized);
}

void write_experts(const ModelOptions& options, Json& config, const HfExpertKeys& keys) {
  config[std::string(keys.count)] = options.num_experts;
  config["num_experts_per_tok"] = options.moe_router_topk;
  config["output_router_logits"] = false;
}

void read_groups(const JsonFields& config, ModelOptions& options, const HfExpertKeys& keys) {
  const std::int64_t groups = config.integer("n_group", keys.groups, 1, kMaxRouterGroups);
  const std::int64_t chosen = config.integer("topk_group", keys.group_topk, 1, kMaxRouterGroups);
  const std::int64_t size = options.num_experts / groups;
  check_input(options.num_experts % groups == 0 && size >= keys.group_best,
              "{}: {} experts in n_group = {} groups: expected groups of equal size, and of {} "
              "experts at least",
              config.what(), options.num_experts, groups, keys.group_best);
  check_input(chosen <= groups && options.moe_router_topk <= chosen * size,
              "{}: topk_group = {} of {} groups with {} experts each cannot give "
              "num_experts_per_tok = {} experts",
              config.what(), chosen, groups, size, options.moe_router_topk);
  if (groups == 1) return;
  options.moe_router_num_groups = groups;
  options.moe_router_group_topk = chosen;
  options.moe_router_group_best = keys.group_best;
}

void write_groups(const ModelOptions& options, Json& config) {
  config["n_group"] = std::max<std::int64_t>(1, options.moe_router_num_groups);
  config["topk_group"] = std::max<std::int64_t>(1, options.moe_router_group_topk);
}

double read_expert_scale(const JsonFields& config, const HfExpertKeys& keys) {
  return config.number("routed_scaling_factor", keys.scale, 1.0 / kMaxHfScale, kMaxHfScale);
}

void read_sigmoid_experts(const JsonFields& config, ModelOptions& options,
                          const HfExpertKeys& keys) {
  options.moe_router_score = RouterScore::sigmoid;
  options.moe_expert_bias = true;
  read_experts(config, options, keys, false);
  options.moe_router_pre_softmax = false;
  options.moe_router_scaling_factor = read_expert_scale(config, keys);
  const bool several = options.moe_router_topk > 1;
  check_input(config.boolean("norm_topk_prob", true) == several,
              "{}: norm_topk_prob = {} with num_experts_per_tok = {} is not supported: the weights "
              "of a sigmoid router are divided by their sum if there are several",
              config.what(), !several, options.moe_router_topk);
  read_groups(config, options, keys);
}

void write_sigmoid_experts(const ModelOptions& options, Json& config, const HfExpertKeys& keys) {
  write_experts(options, config, keys);
  config["norm_topk_prob"] = options.moe_router_topk > 1;
  config["routed_scaling_factor"] = options.moe_router_scaling_factor;
  write_groups(options, config);
}

bool read_normalized(const JsonFields& config) { return config.boolean("norm_topk_prob", false); }

void set_expert_layers(const JsonFields& config, ModelOptions& options,
                       std::vector<std::int64_t> layers) {
  const std::int64_t dense = std::ranges::count(layers, 0);
  check_input(dense < options.num_layers,
              "{}: no layer has experts: set the model_type of a family without experts",
              config.what());
  options.moe_layer_freq = dense == 0 ? std::vector<std::int64_t>{1} : std::move(layers);
}

void read_first_dense_layers(const JsonFields& config, ModelOptions& options,
                             const HfExpertKeys& keys) {
  const std::int64_t dense =
      config.integer("first_k_dense_replace", keys.dense_layers, 0, kMaxHfLayers);
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < options.num_layers; ++i) layers.push_back(i >= dense);
  set_expert_layers(config, options, std::move(layers));
}

void write_first_dense_layers(const ModelOptions& options, Json& config) {
  std::int64_t dense = 0;
  while (dense < options.num_layers && !has_experts(options, dense)) ++dense;
  config["first_k_dense_replace"] = dense;
}

void read_sparse_layers(const JsonFields& config, ModelOptions& options) {
  const std::int64_t step = config.integer("decoder_sparse_step", 1, 1, kMaxHfLayers);
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < options.num_layers; ++i) layers.push_back((i + 1) % step == 0);
  if (config.has("mlp_only_layers")) {
    const Json& dense = config.json()["mlp_only_layers"];
    check_input(dense.is_array(), "{}: mlp_only_layers must be a list of layers", config.what());
    for (const Json& layer : dense) {
      check_input(layer.is_number_integer() && layer >= 0 && layer < options.num_layers,
                  "{}: mlp_only_layers has {:.60}: expected numbers of layers below {}",
                  config.what(), layer.dump(), options.num_layers);
      layers[layer.get<std::size_t>()] = 0;
    }
  }
  set_expert_layers(config, options, std::move(layers));
}

void write_sparse_layers(const ModelOptions& options, Json& config) {
  config["decoder_sparse_step"] = 1;
  Json& dense = config["mlp_only_layers"] = Json::array();
  for (std::int64_t i = 0; i < options.num_layers; ++i)
    if (!has_experts(options, i)) dense.push_back(i);
}

void add_experts(HfTensorList& list, const ModelOptions& options, const std::string& hf,
                 const std::string& ours, const HfExpertNames& names) {
  list.add(fmt::format("{}{}.weight", hf, names.router), {options.num_experts, options.hidden_size},
           ours + "router.weight");
  if (options.mlp_bias)
    list.add(fmt::format("{}{}.bias", hf, names.router), {options.num_experts},
             ours + "router.bias");
  if (options.moe_expert_bias)
    list.add_accumulator(fmt::format("{}{}", hf, names.bias), options.num_experts,
                         ours + "router.expert_bias");
  if (names.gate_up_stack.empty())
    add_each_expert(list, options, hf, ours, names);
  else
    add_stacks(list, options, hf, ours, names);
  if (options.moe_shared_ffn > 0) add_shared_expert(list, options, hf, ours, names);
}

}  // namespace tessera
