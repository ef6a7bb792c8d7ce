// DeepSeek-V2: a softmax router over all experts, whose weights stay as they are; the larger model
// chooses among the best groups of experts, by the best expert of each.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/deepseek_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {
namespace {

constexpr const char* kGreedy = "greedy";
constexpr const char* kGroupLimited = "group_limited_greedy";

// head_dim is that of the rotated channels. transformers has no default of num_experts_per_tok.
constexpr DeepseekStyle kDeepseekV2Style{
    .llama = {.vocab_size = 32000,
              .hidden_size = 4096,
              .ffn_hidden_size = 11008,
              .layers = 32,
              .heads = 32,
              .head_size = 64,
              .positions = 2048,
              .rope = {.percent = ""}},
    .experts = {.count = "n_routed_experts", .experts = 64, .group_best = 1, .dense_layers = 0},
    .expert_width = 1407,
    .shared_experts = 2};

void read_softmax_router(const JsonFields& config, ModelOptions& options) {
  const HfExpertKeys& keys = kDeepseekV2Style.experts;
  check_input(config.has("num_experts_per_tok"), "{}: num_experts_per_tok is missing",
              config.what());
  const std::string method = config.text("topk_method", kGreedy);
  check_input(method == kGreedy || method == kGroupLimited,
              "{}: topk_method '{:.60}' is not supported: expected {} or {}", config.what(), method,
              kGreedy, kGroupLimited);
  const std::string score = config.text("scoring_func", "softmax");
  check_input(score == "softmax", "{}: scoring_func '{:.60}' is not supported: expected softmax",
              config.what(), score);
  require_value(config, "norm_topk_prob", false);  // transformers ignores it
  read_experts(config, options, keys, false);
  options.moe_router_scaling_factor = read_expert_scale(config, keys);
  if (method == kGroupLimited) read_groups(config, options, keys);
}

void read_deepseek_v2(const JsonFields& config, ModelOptions& options) {
  read_deepseek_style(config, options, kDeepseekV2Style);
  require_value(config, "mlp_bias", false);
  if (options.moe_ffn_hidden_size > 0) read_softmax_router(config, options);
}

void write_deepseek_v2(const ModelOptions& options, Json& config) {
  write_deepseek_style(options, config, kDeepseekV2Style);
  config["mlp_bias"] = false;
  if (options.num_experts == 0) return;
  write_experts(options, config, kDeepseekV2Style.experts);
  config["topk_method"] = options.moe_router_num_groups > 1 ? kGroupLimited : kGreedy;
  config["norm_topk_prob"] = false;
  config["routed_scaling_factor"] = options.moe_router_scaling_factor;
  write_groups(options, config);
}

}  // namespace

extern const HfFamily kDeepseekV2{.name = "deepseek_v2",
                                  .architecture = "DeepseekV2ForCausalLM",
                                  .read = read_deepseek_v2,
                                  .write = write_deepseek_v2,
                                  .tensors = deepseek_tensors,
                                  .memory_tensors = deepseek_memory_tensors,
                                  .heads_divide_width = true};

}  // namespace tessera
