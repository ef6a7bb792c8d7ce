// gpt-oss: Llama with biases, a logit without value in the softmax of each head (a sink), an
// attention window in every second layer, and experts with biases behind a limited gate. The
// matrices of all experts of a layer are one tensor, transposed, in which gate and up take turns.
#include <string>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kGptOssStyle{.vocab_size = 201088,
                                  .hidden_size = 2880,
                                  .ffn_hidden_size = 2880,
                                  .layers = 36,
                                  .heads = 64,
                                  .key_value_heads = 8,
                                  .head_size = 64,
                                  .positions = 131072,
                                  .epsilon = 1e-5,
                                  .rope = {.percent = "", .standard_base = 150000.0}};
constexpr HfExpertKeys kGptOssKeys{
    .count = "num_local_experts", .other_count = "num_experts", .experts = 128, .per_token = 4};
constexpr HfExpertNames kGptOssNames{.router = "mlp.router",
                                     .gate_up_stack = "mlp.experts.gate_up_proj",
                                     .down_stack = "mlp.experts.down_proj",
                                     .stacks_transposed = true,
                                     .gate_interleaved = true};
// Parts of the architecture, without keys of their own.
constexpr double kLimit = 7.0;
constexpr double kOffset = 1.0;
constexpr std::int64_t kWindow = 128;

// The defaults of this family: without any RoPE keys there is yarn.
Json with_defaults(const JsonFields& config) {
  Json all = config.json();
  if (!config.contains("sliding_window")) all["sliding_window"] = kWindow;
  if (config.has("rope_scaling") || config.has("rope_parameters")) return all;
  all["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 32.0},
                         {"beta_fast", 32.0},   {"beta_slow", 1.0},
                         {"truncate", false},   {"original_max_position_embeddings", 4096}};
  return all;
}

void read_gpt_oss(const JsonFields& given, ModelOptions& options) {
  const Json all = with_defaults(given);
  const JsonFields config(all, given.what());
  read_llama_style(config, options, kGptOssStyle);
  read_attention_bias(config, options, true);
  options.mlp_bias = true;
  options.softmax_type = SoftmaxType::learnable;
  check_input(options.activation == Activation::silu,
              "{}: hidden_act has no effect in this family: expected \"silu\"", config.what());
  options.activation = Activation::quick_gelu;
  options.activation_clamp = kLimit;
  options.glu_offset = kOffset;
  check_input(config.number("swiglu_limit", kLimit, 0.0, 1e6) == kLimit,
              "{}: swiglu_limit must be {}, the one that transformers has", config.what(), kLimit);
  options.moe_ffn_hidden_size = options.ffn_hidden_size;
  read_experts(config, options, kGptOssKeys, true);
  read_alternating_window(config, options, 2);
}

void write_gpt_oss(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kGptOssStyle);
  config["hidden_act"] = "silu";
  config["intermediate_size"] = options.moe_ffn_hidden_size;
  config["attention_bias"] = options.qkv_bias;
  config["swiglu_limit"] = kLimit;
  write_experts(options, config, kGptOssKeys);
  write_alternating_window(options, config);
  if (options.rope.scaling == RopeScaling::none)
    config["rope_scaling"] = {{"rope_type", "default"}};
}

std::vector<HfTensor> gpt_oss_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, kGptOssNames);
}

}  // namespace

extern const HfFamily kGptOss{.name = "gpt_oss",
                              .architecture = "GptOssForCausalLM",
                              .read = read_gpt_oss,
                              .write = write_gpt_oss,
                              .tensors = gpt_oss_tensors,
                              .mxfp4 = true};

}  // namespace tessera
