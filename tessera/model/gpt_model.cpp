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
  if (part.head) make_head(spec, layer_context);
}

void GptModel::make_head(const ModelSpec& spec, const LayerContext& layer_context) {
  final_norm = make_stream_norm("final_norm", spec.hidden, spec.final_norm, layer_context);
  if (!spec.mtp.empty() && !embedding) {
    token_copy_ =
        make_token_table(spec.embedding.vocab, spec.hidden, spec.embedding.init_std, layer_context);
    token_copy_->parameter().tie(true);
  }
  TokenTable* tokens = embedding ? &embedding->tokens() : token_copy_.get();
  head.emplace(spec.head, layer_context, tied_ && tokens ? &tokens->parameter() : nullptr);
  for (const MtpSpec& depth : spec.mtp) mtp.emplace_back(depth, layer_context, rope_, *tokens);
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
  if (token_copy_) units.push_back({&token_copy_->parameter()});
  for (MtpLayer& depth : mtp) depth.collect(units.emplace_back());
  return units;
}

FsdpUnitNumbers GptModel::fsdp_unit_numbers() const {
  FsdpUnitNumbers numbers;
  if (embedding) {
    numbers.embedding = part_.tied_apart ? 1 : 0;
    numbers.first_block = numbers.embedding + 1;
  }
  numbers.final_norm = numbers.block(blocks.size());
  numbers.head = numbers.final_norm + 1;
  numbers.first_mtp = numbers.head + 1;
  if (token_copy_) numbers.table = numbers.first_mtp++;
  const bool has_tokens = (embedding && !part_.tied_apart) || token_copy_;
  if (tied_ && has_tokens) numbers.head = numbers.table;
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
  for (MtpLayer& depth : mtp) depth.collect_losses(losses);
  return losses;
}

ExpertLoadList GptModel::expert_loads() {
  ExpertLoadList loads;
  for (Block& block : blocks) block.collect_loads(loads);
  for (MtpLayer& depth : mtp) depth.collect_loads(loads);
  return loads;
}

std::size_t GptModel::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                      std::int64_t keys) const {
  std::size_t bytes = final_norm ? final_norm->workspace_bytes(kernels, shape.rows()) : 0;
  if (embedding) bytes = std::max(bytes, embedding->workspace_bytes(kernels, shape));
  for (const Block& block : blocks)
    bytes = std::max(bytes, block.workspace_bytes(kernels, shape, keys));
  for (const MtpLayer& depth : mtp)
    bytes = std::max(bytes, depth.workspace_bytes(kernels, shape, keys));
  return bytes;
}

}  // namespace tessera
