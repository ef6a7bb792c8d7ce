#include "tessera/config/megatron/old_names.h"

#include <algorithm>

namespace tessera::config {
namespace {

constexpr std::string_view kFullRecompute = "recompute-granularity full;recompute-method uniform";

constexpr OldName kOldNames[] = {
    {"activations-checkpoint-granularity", "", "recompute-granularity $"},
    {"activations-checkpoint-method", "", "recompute-granularity full;recompute-method $"},
    {"activations-checkpoint-num-layers", "", "recompute-num-layers $"},
    {"batch-size", "", "micro-batch-size $"},
    {"checkpoint-activations", "", kFullRecompute, Arity::none},
    {"checkpoint-num-layers", "", "recompute-num-layers $"},
    {"distribute-checkpointed-activations", "", "distribute-saved-activations", Arity::none},
    {"encoder-num-layers", "", "num-layers $"},
    {"encoder-seq-length", "", "seq-length $"},
    {"megatron-fsdp-grad-comm-dtype", "fp32", ""},
    {"megatron-fsdp-grad-comm-dtype", "auto", ""},
    {"megatron-fsdp-grad-comm-dtype", "bf16", "grad-reduce-in-bf16"},
    {"megatron-fsdp-main-grads-dtype", "auto", ""},
    {"megatron-fsdp-main-grads-dtype", "", "main-grads-dtype $"},
    {"model-parallel-size", "", "tensor-model-parallel-size $"},
    {"moe-layer-recompute", "", "recompute-modules core_attn moe", Arity::none},
    {"persistent-save-interval", "", "save-interval $"},
    {"rope-type", "rope", ""},
    {"rope-type", "yarn", "rope-scaling-type yarn"},
    {"rotary-seq-len-interpolation-factor", "", "rope-scaling-type linear;rope-scaling-factor $"},
    {"save-retain-interval", "", "keep-last 1;keep-every $"},
    {"torch-fsdp2-no-reshard-after-forward", "", "data-parallel-sharding-strategy optim_grads",
     Arity::none},
    {"use-custom-fsdp", "", "use-megatron-fsdp", Arity::none},
    {"use-rotary-position-embeddings", "", "position-embedding-type rope", Arity::none},
    {"use-torch-fsdp2", "", "use-megatron-fsdp;data-parallel-sharding-strategy optim_grads_params",
     Arity::none},
    {"warmup", "", "lr-warmup-fraction $"},
};

// "a b;c $" -> {a: b}, {c: value}. A switch has no word behind its name.
std::vector<std::pair<std::string, Values>> expand(std::string_view meaning,
                                                   std::string_view value) {
  std::vector<std::pair<std::string, Values>> flags;
  while (!meaning.empty()) {
    const std::string_view one = meaning.substr(0, meaning.find(';'));
    meaning.remove_prefix(std::min(one.size() + 1, meaning.size()));
    const std::size_t space = one.find(' ');
    auto& [name, values] = flags.emplace_back(one.substr(0, space), Values{});
    for (std::string_view rest = one.substr(std::min(space, one.size())); !rest.empty();) {
      const std::string_view word = rest.substr(1, rest.find(' ', 1) - 1);
      values.emplace_back(word == "$" ? value : word);
      rest.remove_prefix(word.size() + 1);
    }
    if (values.empty()) values = {"true"};
  }
  return flags;
}

}  // namespace

std::span<const OldName> old_names() { return kOldNames; }

const OldName* find_old_name(std::string_view name) {
  const auto* found = std::ranges::find(kOldNames, name, &OldName::name);
  return found == std::end(kOldNames) ? nullptr : found;
}

std::optional<std::vector<std::pair<std::string, Values>>> meaning_of(std::string_view name,
                                                                      std::string_view value) {
  for (const OldName& row : kOldNames)
    if (row.name == name && (row.value.empty() || row.value == value))
      return expand(row.meaning, value);
  return std::nullopt;
}

}  // namespace tessera::config
