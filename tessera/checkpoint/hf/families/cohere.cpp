// Cohere's Command R; its norms of queries and keys (Command R+) are not supported.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/cohere_style.h"
#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {
namespace {

constexpr LlamaStyle kCohereStyle = cohere_style(500000.0);

void read_cohere(const JsonFields& config, ModelOptions& options) {
  check_input(
      config.has("rope_theta") || config.has("rope_parameters"),
      "{}: rope_theta is missing, and transformers 4 and 5 take different values for it: add it",
      config.what());
  read_cohere_style(config, options, kCohereStyle);
}

void write_cohere(const ModelOptions& options, Json& config) {
  write_cohere_style(options, config, kCohereStyle);
}

}  // namespace

extern const HfFamily kCohere{.name = "cohere",
                              .architecture = "CohereForCausalLM",
                              .read = read_cohere,
                              .write = write_cohere,
                              .tensors = llama_tensors};

}  // namespace tessera
