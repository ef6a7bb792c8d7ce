// OLMoE: Llama with norms of all query heads and all key heads together, and experts in every
// layer.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {
namespace {

constexpr LlamaStyle kOlmoeStyle{.vocab_size = 50304,
                                 .hidden_size = 2048,
                                 .ffn_hidden_size = 2048,
                                 .layers = 16,
                                 .heads = 16,
                                 .positions = 4096,
                                 .epsilon = 1e-5,
                                 .rope = {.percent = ""},
                                 .has_head_dim = false};
constexpr HfExpertKeys kOlmoeKeys{.experts = 64, .per_token = 8};

void read_olmoe(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kOlmoeStyle);
  read_attention_bias(config, options);
  check_input(!config.has("clip_qkv"), "{}: clip_qkv is not supported: expected null",
              config.what());
  options.qk_norm = QkNorm::whole_width;
  options.moe_ffn_hidden_size = options.ffn_hidden_size;
  read_experts(config, options, kOlmoeKeys, read_normalized(config));
}

void write_olmoe(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kOlmoeStyle);
  config["attention_bias"] = options.qkv_bias;
  config["intermediate_size"] = options.moe_ffn_hidden_size;
  write_experts(options, config, kOlmoeKeys);
  config["norm_topk_prob"] = !options.moe_router_pre_softmax;
}

}  // namespace

extern const HfFamily kOlmoe{.name = "olmoe",
                             .architecture = "OlmoeForCausalLM",
                             .read = read_olmoe,
                             .write = write_olmoe,
                             .tensors = llama_tensors,
                             .memory_tensors = llama_memory_tensors,
                             .heads_divide_width = true};

}  // namespace tessera
