// Cohere's Command R7B: an attention window in all layers but every 4th, which have no RoPE.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/cohere_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kCohere2Style = cohere_style(10000.0);

void read_cohere2(const JsonFields& config, ModelOptions& options) {
  read_cohere_style(config, options, kCohere2Style);
  read_alternating_window(config, options, 4);
  check_input(options.attention_window > 0 && options.window_first_layer == 0,
              "{}: layers without an attention window, which have no RoPE either, are supported as "
              "every N-th layer only",
              config.what());
  options.no_rope_freq = options.window_skip_freq;
}

void write_cohere2(const ModelOptions& options, Json& config) {
  write_cohere_style(options, config, kCohere2Style);
  write_alternating_window(options, config);
}

}  // namespace

extern const HfFamily kCohere2{.name = "cohere2",
                               .architecture = "Cohere2ForCausalLM",
                               .read = read_cohere2,
                               .write = write_cohere2,
                               .tensors = llama_tensors};

}  // namespace tessera
