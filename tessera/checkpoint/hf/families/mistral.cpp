// Mistral: Llama without biases, with an attention window in every layer.
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kMistralStyle{
    .ffn_hidden_size = 14336, .key_value_heads = 8, .positions = 131072};

void read_mistral(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kMistralStyle);
  options.attention_window = read_window(config, 4096);
  check_layer_types(config, options);
}

void write_mistral(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kMistralStyle);
  write_window(options, config);
}

}  // namespace

extern const HfFamily kMistral{.name = "mistral",
                               .architecture = "MistralForCausalLM",
                               .read = read_mistral,
                               .write = write_mistral,
                               .tensors = llama_tensors,
                               .in_trtllm = true};

}  // namespace tessera
