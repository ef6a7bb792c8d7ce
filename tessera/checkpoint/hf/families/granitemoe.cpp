// Granite with experts in every layer, whose weights are divided by their sum. The matrices of all
// experts of a layer are one tensor.
#include "tessera/checkpoint/hf/families/granite_style.h"
#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {
namespace {

constexpr HfExpertKeys kGraniteMoeKeys{.count = "num_local_experts", .experts = 8, .per_token = 2};
constexpr HfExpertNames kGraniteMoeNames{.router = "block_sparse_moe.router.layer",
                                         .gate_up_stack = "block_sparse_moe.input_linear.weight",
                                         .down_stack = "block_sparse_moe.output_linear.weight"};

void read_granitemoe(const JsonFields& config, ModelOptions& options) {
  read_granite_style(config, options);
  options.moe_ffn_hidden_size = options.ffn_hidden_size;
  read_experts(config, options, kGraniteMoeKeys, true);
}

void write_granitemoe(const ModelOptions& options, Json& config) {
  write_granite_style(options, config);
  config["intermediate_size"] = options.moe_ffn_hidden_size;
  write_experts(options, config, kGraniteMoeKeys);
}

std::vector<HfTensor> granitemoe_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, kGraniteMoeNames);
}

}  // namespace

extern const HfFamily kGraniteMoe{.name = "granitemoe",
                                  .architecture = "GraniteMoeForCausalLM",
                                  .read = read_granitemoe,
                                  .write = write_granitemoe,
                                  .tensors = granitemoe_tensors};

}  // namespace tessera
