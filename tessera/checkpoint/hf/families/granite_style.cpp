#include "tessera/checkpoint/hf/families/granite_style.h"

#include <cmath>

#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {
namespace {

double reciprocal(double x) { return 1.0 / x; }

double read_scale(const JsonFields& config, std::string_view key) {
  return config.number(key, 1.0, 1.0 / kMaxHfScale, kMaxHfScale);
}

}  // namespace

void read_granite_style(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kGraniteStyle);
  read_attention_bias(config, options);
  options.embedding_scale = read_scale(config, "embedding_multiplier");
  options.residual_scale = read_scale(config, "residual_multiplier");
  options.softmax_scale = read_scale(config, "attention_multiplier");
  options.logit_scale = reciprocal(read_scale(config, "logits_scaling"));
}

void write_granite_style(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kGraniteStyle);
  config["attention_bias"] = options.qkv_bias;
  config["embedding_multiplier"] = options.embedding_scale;
  config["residual_multiplier"] = options.residual_scale;
  config["attention_multiplier"] = options.softmax_scale > 0.0
                                       ? options.softmax_scale
                                       : 1.0 / std::sqrt(static_cast<double>(options.kv_channels));
  config["logits_scaling"] =
      key_giving(options.logit_scale, reciprocal(options.logit_scale), reciprocal);
}

}  // namespace tessera
