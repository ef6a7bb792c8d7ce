#include "tessera/checkpoint/hf/hf_names.h"

#include <algorithm>
#include <array>

#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/spec/parameter_table.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 5> kBuffers{".attn.bias", ".attn.masked_bias",
                                                   ".attention.bias", ".attention.masked_bias",
                                                   "rotary_emb.inv_freq"};

std::vector<HfTensor> own_tensors(const ModelOptions& options) {
  std::vector<HfTensor> tensors;
  const ParameterTable table(model_spec(options));  // outlives the loop
  for (const ParameterInfo& each : table.all())
    tensors.push_back({.name = each.name,
                       .shape = each.shape,
                       .accumulator = each.placement_class == PlacementClass::buffer,
                       .parts = {{each.name, each.shape}},
                       .stack = each.shape.rank() == 3});
  return tensors;
}

}  // namespace

Shape HfTensor::part_shape(const HfPart& part) const {
  return of_experts() ? Shape(part.shape.dims().subspan(1)) : part.shape;
}

Shape HfTensor::matrix_shape() const { return stack ? Shape(shape.dims().subspan(1)) : shape; }

std::vector<HfTensor> hf_tensors(const ModelOptions& options, std::string_view family) {
  if (!family.empty()) return hf_family(family).tensors(options);
  std::vector<HfTensor> tensors =
      options.num_experts > 0 ? own_tensors(options) : llama_tensors(options);
  std::erase_if(tensors, [](const HfTensor& tensor) { return tensor.copy; });
  return tensors;
}

std::string hf_full_name(std::string_view name, std::string_view family) {
  const auto full_name = hf_family(family).full_name;
  return full_name == nullptr ? std::string(name) : full_name(name);
}

bool is_hf_buffer(std::string_view name) {
  return std::ranges::any_of(kBuffers, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace tessera
