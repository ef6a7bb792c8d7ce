// GLM-4 with experts (GLM-4.5, 4.6): Llama with RoPE on a part of each head, norms of each query
// and key head by choice, and behind the first layers a sigmoid router with a bias, and shared
// experts, which are one MLP.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {
namespace {

constexpr LlamaStyle kGlm4MoeStyle{.vocab_size = 151552,
                                   .ffn_hidden_size = 10944,
                                   .layers = 46,
                                   .heads = 96,
                                   .key_value_heads = 8,
                                   .positions = 131072,
                                   .epsilon = 1e-5,
                                   .rope = {.writes_percent = true, .standard_percent = 0.5}};
constexpr HfExpertKeys kGlm4MoeKeys{.count = "n_routed_experts", .experts = 128, .per_token = 8};
constexpr HfExpertNames kGlm4MoeNames{.shared = "mlp.shared_experts"};
constexpr std::int64_t kMaxSharedExperts = 64;

void read_glm4_moe(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kGlm4MoeStyle);
  options.qkv_bias = config.boolean("attention_bias", false);
  if (config.boolean("use_qk_norm", false)) options.qk_norm = QkNorm::per_head;
  options.moe_ffn_hidden_size = config.integer("moe_intermediate_size", 1408, 1, kMaxHfWidth);
  options.moe_shared_ffn =
      config.integer("n_shared_experts", 1, 1, kMaxSharedExperts) * options.moe_ffn_hidden_size;
  read_sigmoid_experts(config, options, kGlm4MoeKeys);
  read_first_dense_layers(config, options, kGlm4MoeKeys);
}

void write_glm4_moe(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kGlm4MoeStyle);
  config["attention_bias"] = options.qkv_bias;
  config["use_qk_norm"] = options.qk_norm == QkNorm::per_head;
  config["moe_intermediate_size"] = options.moe_ffn_hidden_size;
  const std::int64_t width = options.moe_ffn_hidden_size;
  config["n_shared_experts"] = width > 0 ? options.moe_shared_ffn / width : 0;
  write_sigmoid_experts(options, config, kGlm4MoeKeys);
  write_first_dense_layers(options, config);
}

std::vector<HfTensor> glm4_moe_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, kGlm4MoeNames);
}

std::vector<HfTensor> glm4_moe_memory_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, memory_names(kGlm4MoeNames));
}

}  // namespace

extern const HfFamily kGlm4Moe{.name = "glm4_moe",
                               .architecture = "Glm4MoeForCausalLM",
                               .read = read_glm4_moe,
                               .write = write_glm4_moe,
                               .tensors = glm4_moe_tensors,
                               .memory_tensors = glm4_moe_memory_tensors,
                               .mtp_layers = true};

}  // namespace tessera
