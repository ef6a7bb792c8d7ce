// Granite: Llama with four scales: of embeddings, attention scores, residual branches and logits.
#include "tessera/checkpoint/hf/families/granite_style.h"
#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {
namespace {

void read_granite(const JsonFields& config, ModelOptions& options) {
  read_granite_style(config, options);
  options.mlp_bias = config.boolean("mlp_bias", false);
}

void write_granite(const ModelOptions& options, Json& config) {
  write_granite_style(options, config);
  config["mlp_bias"] = options.mlp_bias;
}

}  // namespace

extern const HfFamily kGranite{.name = "granite",
                               .architecture = "GraniteForCausalLM",
                               .read = read_granite,
                               .write = write_granite,
                               .tensors = llama_tensors};

}  // namespace tessera
