#include "tessera/checkpoint/hf/families/gemma_style.h"

#include <cmath>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {
namespace {

double scale_from_scalar(double scalar) { return 1.0 / std::sqrt(scalar); }

}  // namespace

void read_gemma_style(const JsonFields& config, ModelOptions& options, const LlamaStyle& style) {
  read_llama_style(config, options, style);
  read_attention_bias(config, options);
  require_value(config, "use_bidirectional_attention", false);
  options.layernorm_1p = true;
  options.embedding_scale = std::sqrt(static_cast<double>(options.hidden_size));
}

void write_gemma_style(const ModelOptions& options, Json& config, const LlamaStyle& style) {
  write_llama_style(options, config, style);
  config["attention_bias"] = options.qkv_bias;
}

void read_query_scalar(const JsonFields& config, ModelOptions& options) {
  const double scalar = config.number("query_pre_attn_scalar", 256.0, 1e-6, kMaxHfScale);
  const bool usual = scalar == static_cast<double>(options.kv_channels);
  options.softmax_scale = usual ? 0.0 : scale_from_scalar(scalar);
}

// transformers takes whole numbers only.
void write_query_scalar(const ModelOptions& options, Json& config) {
  const double scale = options.softmax_scale;
  if (scale == 0.0) {
    config["query_pre_attn_scalar"] = options.kv_channels;
    return;
  }
  const double scalar = key_giving(scale, 1.0 / (scale * scale), scale_from_scalar);
  if (scalar == std::floor(scalar) && scalar <= kMaxHfScale)
    config["query_pre_attn_scalar"] = static_cast<std::int64_t>(scalar);
}

double read_softcap(const JsonFields& config, std::string_view key, double standard) {
  return config.number(key, config.contains(key) ? 0.0 : standard, 1e-6, kMaxHfScale);
}

Json softcap_json(double softcap) { return softcap > 0.0 ? Json(softcap) : Json(); }

}  // namespace tessera
