// Qwen2-MoE (Qwen1.5-MoE, Qwen2-57B-A14B): Qwen2 with experts in some layers or all, and a gated
// shared expert beside them. Which layers use_sliding_window gives a window depends on the version
// of transformers: it is not supported.
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kQwen2MoeStyle{.vocab_size = 151936,
                                    .hidden_size = 2048,
                                    .ffn_hidden_size = 5632,
                                    .layers = 24,
                                    .heads = 16,
                                    .key_value_heads = 16,
                                    .positions = 32768};
constexpr HfExpertKeys kQwen2MoeKeys{.experts = 60, .per_token = 4};
constexpr std::string_view kSharedKey = "shared_expert_intermediate_size";

void read_qwen2_moe(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kQwen2MoeStyle);
  options.qkv_bias = config.boolean("qkv_bias", true);
  options.moe_ffn_hidden_size = config.integer("moe_intermediate_size", 1408, 1, kMaxHfWidth);
  options.moe_shared_ffn = config.integer(kSharedKey, 5632, 1, kMaxHfWidth);
  options.moe_shared_gate = true;
  read_experts(config, options, kQwen2MoeKeys, read_normalized(config));
  read_sparse_layers(config, options);
  require_value(config, "use_sliding_window", false);
  check_layer_types(config, options);
}

void write_qwen2_moe(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kQwen2MoeStyle);
  config["qkv_bias"] = options.qkv_bias;
  config["moe_intermediate_size"] = options.moe_ffn_hidden_size;
  config[std::string(kSharedKey)] = options.moe_shared_ffn;
  write_experts(options, config, kQwen2MoeKeys);
  config["norm_topk_prob"] = !options.moe_router_pre_softmax;
  write_sparse_layers(options, config);
  config["use_sliding_window"] = false;
}

}  // namespace

extern const HfFamily kQwen2Moe{.name = "qwen2_moe",
                                .architecture = "Qwen2MoeForCausalLM",
                                .read = read_qwen2_moe,
                                .write = write_qwen2_moe,
                                .tensors = llama_tensors,
                                .memory_tensors = llama_memory_tensors};

}  // namespace tessera
