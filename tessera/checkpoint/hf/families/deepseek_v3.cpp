// DeepSeek-V3: a sigmoid router with a bias.
#include "tessera/checkpoint/hf/families/deepseek_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {
namespace {

// head_dim is that of the rotated channels.
constexpr DeepseekStyle kDeepseekV3Style{.llama = {.vocab_size = 129280,
                                                   .hidden_size = 7168,
                                                   .ffn_hidden_size = 18432,
                                                   .layers = 61,
                                                   .heads = 128,
                                                   .key_value_heads = 128,
                                                   .head_size = 64,
                                                   .positions = 4096,
                                                   .rope = {.percent = ""}},
                                         .experts = {.count = "n_routed_experts",
                                                     .experts = 256,
                                                     .per_token = 8,
                                                     .groups = 8,
                                                     .group_topk = 4,
                                                     .scale = 2.5,
                                                     .dense_layers = 3},
                                         .expert_width = 2048};

void read_deepseek_v3(const JsonFields& config, ModelOptions& options) {
  read_deepseek_style(config, options, kDeepseekV3Style);
  require_value(config, "rope_interleave", true);
  if (options.moe_ffn_hidden_size == 0) return;
  read_sigmoid_experts(config, options, kDeepseekV3Style.experts);
}

void write_deepseek_v3(const ModelOptions& options, Json& config) {
  write_deepseek_style(options, config, kDeepseekV3Style);
  config["rope_interleave"] = true;
  if (options.num_experts > 0) write_sigmoid_experts(options, config, kDeepseekV3Style.experts);
}

}  // namespace

extern const HfFamily kDeepseekV3{.name = "deepseek_v3",
                                  .architecture = "DeepseekV3ForCausalLM",
                                  .read = read_deepseek_v3,
                                  .write = write_deepseek_v3,
                                  .tensors = deepseek_tensors,
                                  .memory_tensors = deepseek_memory_tensors,
                                  .mtp_layers = true};

}  // namespace tessera
