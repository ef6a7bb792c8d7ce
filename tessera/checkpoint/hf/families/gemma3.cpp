// Gemma 3 (text): Gemma 2 with norms of each query and key head instead of the soft cap of scores,
// a window in all layers but every 6th, and RoPE with a base of its own in the layers with a
// window.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/gemma_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr std::string_view kLocalBaseKey = "rope_local_base_freq";
constexpr LlamaStyle kGemma3Style{
    .vocab_size = 262208,
    .hidden_size = 2304,
    .ffn_hidden_size = 9216,
    .layers = 26,
    .heads = 8,
    .key_value_heads = 4,
    .head_size = 256,
    .positions = 131072,
    .tied = true,
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .rope = {.percent = "", .standard_base = 1e6, .layer_type = "full_attention"}};

// rope_scaling is for the layers without a window only.
double read_local_base(const JsonFields& config, const ModelOptions& options) {
  constexpr HfRopeKeys keys{
      .base = kLocalBaseKey, .percent = "", .layer_type = "sliding_attention"};
  Json without_scaling = config.json();
  without_scaling.erase("rope_scaling");
  const RopeOptions rope = read_hf_rope(JsonFields(without_scaling, config.what()), options, keys);
  check_input(rope.scaling == RopeScaling::none,
              "{}: RoPE scaling in layers with an attention window is not supported",
              config.what());
  return rope.base;
}

// transformers does not heed the old key here: the scaling would have no effect.
void require_rope_type(const JsonFields& config) {
  if (!config.has("rope_scaling")) return;
  const JsonFields scaling(config.json()["rope_scaling"], config.what() + ", rope_scaling");
  check_input(!scaling.has("type") || scaling.has("rope_type"),
              "{}: this family has rope_type instead of type", scaling.what());
}

void read_gemma3(const JsonFields& config, ModelOptions& options) {
  require_rope_type(config);
  read_gemma_style(config, options, kGemma3Style);
  options.norm_placement = NormPlacement::before_and_after;
  options.qk_norm = QkNorm::per_head;
  read_query_scalar(config, options);
  read_alternating_window(config, options, 6);
  const double local_base = read_local_base(config, options);
  if (options.attention_window > 0) options.rope_local_base = local_base;
  options.logit_softcap = read_softcap(config, "final_logit_softcapping", 0.0);
  // transformers reads it and does not apply it: what was meant is not known.
  check_input(!config.has("attn_logit_softcapping"),
              "{}: attn_logit_softcapping is not supported for this family: expected null",
              config.what());
}

void write_gemma3(const ModelOptions& options, Json& config) {
  write_gemma_style(options, config, kGemma3Style);
  write_query_scalar(options, config);
  write_alternating_window(options, config);
  const bool own_base = options.rope_local_base > 0.0;
  config[std::string(kLocalBaseKey)] = own_base ? options.rope_local_base : options.rope.base;
  config["final_logit_softcapping"] = softcap_json(options.logit_softcap);
}

}  // namespace

extern const HfFamily kGemma3{.name = "gemma3_text",
                              .architecture = "Gemma3ForCausalLM",
                              .read = read_gemma3,
                              .write = write_gemma3,
                              .tensors = llama_tensors,
                              .heads_divide_width = true};

}  // namespace tessera
