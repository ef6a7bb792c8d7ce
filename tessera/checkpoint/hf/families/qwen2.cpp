// Qwen2: Llama with biases on queries, keys and values only, and an attention window from one layer
// on.
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kQwen2Style{
    .vocab_size = 151936, .ffn_hidden_size = 22016, .key_value_heads = 32, .positions = 32768};

void read_qwen2(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kQwen2Style);
  options.qkv_bias = true;
  read_window_from_layer(config, options);
}

void write_qwen2(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kQwen2Style);
  write_window_from_layer(options, config);
}

}  // namespace

extern const HfFamily kQwen2{.name = "qwen2",
                             .architecture = "Qwen2ForCausalLM",
                             .read = read_qwen2,
                             .write = write_qwen2,
                             .tensors = llama_tensors,
                             .in_trtllm = true};

}  // namespace tessera
