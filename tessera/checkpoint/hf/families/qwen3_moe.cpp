// Qwen3-MoE: Qwen3 with experts in some layers or all, and an attention window in every layer.
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kQwen3MoeStyle{.vocab_size = 151936,
                                    .hidden_size = 2048,
                                    .ffn_hidden_size = 6144,
                                    .layers = 24,
                                    .key_value_heads = 4,
                                    .positions = 32768};
constexpr HfExpertKeys kQwen3MoeKeys{
    .other_count = "num_local_experts", .experts = 128, .per_token = 8};

void read_qwen3_moe(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kQwen3MoeStyle);
  read_attention_bias(config, options);
  options.qk_norm = QkNorm::per_head;
  options.moe_ffn_hidden_size = config.integer("moe_intermediate_size", 768, 1, kMaxHfWidth);
  read_experts(config, options, kQwen3MoeKeys, read_normalized(config));
  read_sparse_layers(config, options);
  if (config.boolean("use_sliding_window", false))
    options.attention_window = read_window(config, 4096);
  check_layer_types(config, options);
}

void write_qwen3_moe(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kQwen3MoeStyle);
  config["attention_bias"] = options.qkv_bias;
  config["moe_intermediate_size"] = options.moe_ffn_hidden_size;
  write_experts(options, config, kQwen3MoeKeys);
  config["norm_topk_prob"] = !options.moe_router_pre_softmax;
  write_sparse_layers(options, config);
  write_window(options, config);
  config["use_sliding_window"] = options.attention_window > 0;
}

}  // namespace

extern const HfFamily kQwen3Moe{.name = "qwen3_moe",
                                .architecture = "Qwen3MoeForCausalLM",
                                .read = read_qwen3_moe,
                                .write = write_qwen3_moe,
                                .tensors = llama_tensors,
                                .memory_tensors = llama_memory_tensors};

}  // namespace tessera
