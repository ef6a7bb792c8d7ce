// Gemma: Llama's layers with GeGLU, norms' weights stored minus 1, and scaled embeddings.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/gemma_style.h"
#include "tessera/checkpoint/hf/hf_activation.h"
#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {
namespace {

constexpr std::string_view kGemmaActivation = "gelu_pytorch_tanh";
constexpr LlamaStyle kGemmaStyle{.vocab_size = 256000,
                                 .hidden_size = 3072,
                                 .ffn_hidden_size = 24576,
                                 .layers = 28,
                                 .heads = 16,
                                 .key_value_heads = 16,
                                 .head_size = 256,
                                 .positions = 8192,
                                 .tied = true,
                                 .activation = kGemmaActivation,
                                 .rope = {.percent = ""}};

// The first releases say "gelu" and mean the tanh form, which transformers corrects; another key,
// hidden_activation, was added to say so.
void read_gemma(const JsonFields& config, ModelOptions& options) {
  read_gemma_style(config, options, kGemmaStyle);
  if (options.activation == Activation::gelu_exact) options.activation = Activation::gelu;
  check_input(!config.has("hidden_activation") ||
                  read_hf_activation(config, "hidden_activation", "") == options.activation,
              "{}: hidden_act and hidden_activation differ: expected {} for both", config.what(),
              kGemmaActivation);
}

void write_gemma(const ModelOptions& options, Json& config) {
  write_gemma_style(options, config, kGemmaStyle);
}

}  // namespace

extern const HfFamily kGemma{.name = "gemma",
                             .architecture = "GemmaForCausalLM",
                             .read = read_gemma,
                             .write = write_gemma,
                             .tensors = llama_tensors};

}  // namespace tessera
