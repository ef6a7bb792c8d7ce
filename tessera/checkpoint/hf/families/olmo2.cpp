// OLMo 2: Llama with norms after the sublayers instead of before, and norms of all query heads and
// all key heads together.
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {
namespace {

constexpr LlamaStyle kOlmo2Style{.vocab_size = 50304, .epsilon = 1e-5, .rope = {.percent = ""}};

void read_olmo2(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kOlmo2Style);
  read_attention_bias(config, options);
  options.norm_placement = NormPlacement::after;
  options.qk_norm = QkNorm::whole_width;
}

// transformers 4 takes no scaling but this, in this form.
void write_olmo2(const ModelOptions& options, Json& config) {
  ModelOptions unscaled = options;
  unscaled.rope.scaling = RopeScaling::none;
  write_llama_style(unscaled, config, kOlmo2Style);
  if (options.rope.scaling == RopeScaling::linear)
    config["rope_scaling"] = {{"type", "linear"}, {"factor", options.rope.factor}};
  config["attention_bias"] = options.qkv_bias;
}

}  // namespace

extern const HfFamily kOlmo2{.name = "olmo2",
                             .architecture = "Olmo2ForCausalLM",
                             .read = read_olmo2,
                             .write = write_olmo2,
                             .tensors = llama_tensors};

}  // namespace tessera
