// Phi-3: Llama with RoPE on a part of each head, an attention window in every layer, and fused
// projections: q, k and v are one tensor, gate and up another. longrope, whose frequencies depend
// on the length of the sequence, is not supported.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kPhi3Style{.vocab_size = 32064,
                                .hidden_size = 3072,
                                .ffn_hidden_size = 8192,
                                .positions = 4096,
                                .epsilon = 1e-5,
                                .rope = {.writes_percent = true}};

void read_phi3(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kPhi3Style);
  // Whatever else rope_scaling says, transformers takes it as longrope.
  check_input(options.rope.scaling == RopeScaling::none,
              "{}: RoPE scaling of phi3 models (longrope) is not supported", config.what());
  options.hidden_dropout = read_hidden_dropout(config, 0.0);
  options.attention_window = read_window(config, 0);
}

void write_phi3(const ModelOptions& options, Json& config) {
  ModelOptions unscaled = options;
  unscaled.rope.scaling = RopeScaling::none;
  write_llama_style(unscaled, config, kPhi3Style);
  config["resid_pdrop"] = config["embd_pdrop"] = options.hidden_dropout;
  write_window(options, config);
}

std::vector<HfTensor> phi3_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::fused);
}

}  // namespace

extern const HfFamily kPhi3{.name = "phi3",
                            .architecture = "Phi3ForCausalLM",
                            .read = read_phi3,
                            .write = write_phi3,
                            .tensors = phi3_tensors};

}  // namespace tessera
