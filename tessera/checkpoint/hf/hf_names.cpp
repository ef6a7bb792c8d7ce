#include "tessera/checkpoint/hf/hf_names.h"

#include <algorithm>
#include <array>

#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 5> kBuffers{".attn.bias", ".attn.masked_bias",
                                                   ".attention.bias", ".attention.masked_bias",
                                                   "rotary_emb.inv_freq"};

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelOptions& options, std::string_view family) {
  return family.empty() ? llama_tensors(options) : hf_family(family).tensors(options);
}

std::string hf_full_name(std::string_view name, std::string_view family) {
  const auto full_name = hf_family(family).full_name;
  return full_name == nullptr ? std::string(name) : full_name(name);
}

bool is_hf_buffer(std::string_view name) {
  return std::ranges::any_of(kBuffers, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace tessera
