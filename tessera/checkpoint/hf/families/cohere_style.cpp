#include "tessera/checkpoint/hf/families/cohere_style.h"

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {

void read_cohere_style(const JsonFields& config, ModelOptions& options, const LlamaStyle& style) {
  read_llama_style(config, options, style);
  read_attention_bias(config, options);
  require_value(config, "use_qk_norm", false);
  options.normalization = Normalization::layer_norm;
  options.norm_bias = false;
  options.parallel_block = ParallelBlock::one_norm;
  options.rotary_interleaved = true;
  options.logit_scale = config.number("logit_scale", 0.0625, 1.0 / kMaxHfScale, kMaxHfScale);
}

void write_cohere_style(const ModelOptions& options, Json& config, const LlamaStyle& style) {
  write_llama_style(options, config, style);
  config["attention_bias"] = options.qkv_bias;
  config["logit_scale"] = options.logit_scale;
}

}  // namespace tessera
