// Llama: RoPE, RMSNorm, SwiGLU, grouped queries; biases by choice.
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {
namespace {

constexpr LlamaStyle kLlamaStyle{};

void read_llama(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kLlamaStyle);
  read_attention_bias(config, options);
  options.mlp_bias = config.boolean("mlp_bias", false);
}

void write_llama(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kLlamaStyle);
  config["attention_bias"] = options.qkv_bias;
  config["mlp_bias"] = options.mlp_bias;
}

}  // namespace

extern const HfFamily kLlama{.name = "llama",
                             .architecture = "LlamaForCausalLM",
                             .read = read_llama,
                             .write = write_llama,
                             .tensors = llama_tensors,
                             .in_trtllm = true,
                             .heads_divide_width = true};

}  // namespace tessera
