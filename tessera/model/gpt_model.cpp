#include "tessera/model/gpt_model.h"

#include <algorithm>

namespace tessera {
GptModel::GptModel(const ModelSpec& spec, const StagePart& part, const LayerContext& layer_context,
                   Memory& memory, Stream& stream, std::int64_t positions)
    : dtype_(spec.dtype),
      hidden_(spec.hidden),
      tied_(spec.head.tied),
      part_(part),
      rows_(layer_context),
      rope_(memory, stream, spec.dtype, positions) {
  if (part.embedding) embedding.emplace(spec.embedding, layer_context);
  if (part.embedding && part.tied_apart) embedding->table().tie(false);
  for (std::int64_t layer = part.layers.begin; layer < part.layers.end; ++layer)
    blocks.emplace_back(spec.layers[static_cast<std::size_t>(layer)], layer_context, rope_);
  if (!part.head) return;
  final_norm = make_stream_norm("final_norm", spec.hidden, spec.final_norm, layer_context);
  head.emplace(spec.head, layer_context, tied_ && embedding ? &embedding->table() : nullptr);
}

std::vector<ParameterList> GptModel::fsdp_units() {
  std::vector<ParameterList> units;
  if (embedding) {
    embedding->collect(units.emplace_back());
    ParameterList& all = units.back();
    if (part_.tied_apart) {
      const ParameterList others(all.begin() + 1, all.end());
      all.resize(1);
      units.push_back(others);
    }
  }
  for (Block& block : blocks) block.collect(units.emplace_back());
  if (!head) return units;
  final_norm->collect(units.emplace_back());
  head->collect(units.emplace_back());
  return units;
}

FsdpUnitNumbers GptModel::fsdp_unit_numbers() const {
  FsdpUnitNumbers numbers;
  if (embedding) {
    numbers.embedding = part_.tied_apart ? 1 : 0;
    numbers.first_block = numbers.embedding + 1;
  }
  numbers.final_norm = numbers.block(blocks.size());
  numbers.head = embedding && tied_ && !part_.tied_apart ? numbers.table : numbers.final_norm + 1;
  return numbers;
}

ParameterList GptModel::parameters() {
  ParameterList parameters;
  for (const ParameterList& unit : fsdp_units())
    parameters.insert(parameters.end(), unit.begin(), unit.end());
  return parameters;
}

ExtraLossList GptModel::extra_losses() {
  ExtraLossList losses;
  for (Block& block : blocks) block.collect_losses(losses);
  return losses;
}

ExpertLoadList GptModel::expert_loads() {
  ExpertLoadList loads;
  for (Block& block : blocks) block.collect_loads(loads);
  return loads;
}

std::size_t GptModel::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                      std::int64_t keys) const {
  std::size_t bytes = final_norm ? final_norm->workspace_bytes(kernels, shape.rows()) : 0;
  if (embedding) bytes = std::max(bytes, embedding->workspace_bytes(kernels, shape));
  for (const Block& block : blocks)
    bytes = std::max(bytes, block.workspace_bytes(kernels, shape, keys));
  return bytes;
}

}  // namespace tessera
