// Qwen3: Llama with norms of each query and key head, and an attention window from one layer on.
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kQwen3Style{.vocab_size = 151936,
                                 .ffn_hidden_size = 22016,
                                 .key_value_heads = 32,
                                 .head_size = 128,
                                 .positions = 32768};

void read_qwen3(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kQwen3Style);
  read_attention_bias(config, options);
  options.qk_norm = QkNorm::per_head;
  read_window_from_layer(config, options);
}

void write_qwen3(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kQwen3Style);
  config["attention_bias"] = options.qkv_bias;
  write_window_from_layer(options, config);
}

}  // namespace

extern const HfFamily kQwen3{.name = "qwen3",
                             .architecture = "Qwen3ForCausalLM",
                             .read = read_qwen3,
                             .write = write_qwen3,
                             .tensors = llama_tensors};

}  // namespace tessera
