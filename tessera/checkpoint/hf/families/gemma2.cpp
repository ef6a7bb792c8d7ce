// Gemma 2: Gemma with norms before and after each sublayer, an attention window in every other
// layer, and soft caps of attention scores and logits.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/gemma_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kGemma2Style{.vocab_size = 256000,
                                  .hidden_size = 2304,
                                  .ffn_hidden_size = 9216,
                                  .layers = 26,
                                  .heads = 8,
                                  .key_value_heads = 4,
                                  .head_size = 256,
                                  .positions = 8192,
                                  .tied = true,
                                  .activation_key = "hidden_activation",
                                  .activation = "gelu_pytorch_tanh",
                                  .rope = {.percent = ""}};

// transformers would not heed it.
void require_no_pattern(const JsonFields& config) {
  check_input(!config.has("sliding_window_pattern"),
              "{}: sliding_window_pattern is no key of this family: give layer_types",
              config.what());
}

void read_gemma2(const JsonFields& config, ModelOptions& options) {
  read_gemma_style(config, options, kGemma2Style);
  options.norm_placement = NormPlacement::before_and_after;
  read_query_scalar(config, options);
  require_no_pattern(config);
  read_alternating_window(config, options, 2);
  options.attention_softcap = read_softcap(config, "attn_logit_softcapping", 50.0);
  options.logit_softcap = read_softcap(config, "final_logit_softcapping", 30.0);
}

void write_gemma2(const ModelOptions& options, Json& config) {
  write_gemma_style(options, config, kGemma2Style);
  write_query_scalar(options, config);
  write_alternating_window(options, config);
  config["attn_logit_softcapping"] = softcap_json(options.attention_softcap);
  config["final_logit_softcapping"] = softcap_json(options.logit_softcap);
}

}  // namespace

extern const HfFamily kGemma2{.name = "gemma2",
                              .architecture = "Gemma2ForCausalLM",
                              .read = read_gemma2,
                              .write = write_gemma2,
                              .tensors = llama_tensors,
                              .heads_divide_width = true};

}  // namespace tessera
