// A decoder-only language model, or the chunk of it that one pipeline stage holds: layers and their
// parameters. stage_runner.h runs them and owns their activation memory.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "tessera/nn/block.h"
#include "tessera/nn/embedding.h"
#include "tessera/nn/lm_head.h"
#include "tessera/nn/mtp/mtp_layer.h"
#include "tessera/pipeline/stage_split.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

/// The indices of a chunk's FSDP units (nn/module_hooks.h). Several may be the same unit.
struct FsdpUnitNumbers {
  std::size_t table = 0;      ///< the word embeddings
  std::size_t embedding = 0;  ///< all other parameters of the embedding
  std::size_t first_block = 0;
  std::size_t final_norm = 0;
  std::size_t head = 0;
  std::size_t first_mtp = 0;

  std::size_t block(std::size_t i) const { return first_block + i; }
  std::size_t mtp(std::size_t depth) const { return first_mtp + depth; }
};

inline ModelOutline model_outline(const ModelOptions& options) {
  return {options.num_layers, options.tie_embeddings || options.mtp_num_layers > 0,
          options.mtp_num_layers};
}

class GptModel {
 public:
  /// `positions` is the longest sequence that will be run (the size of rotary tables).
  GptModel(const ModelSpec& spec, const StagePart& part, const LayerContext& layer_context,
           Memory& memory, Stream& stream, std::int64_t positions);

  DType dtype() const { return dtype_; }
  /// Channels of the residual stream.
  std::int64_t hidden() const { return hidden_; }
  const StagePart& part() const { return part_; }
  /// How the rows of the residual stream are distributed over the tensor-parallel group.
  const RowLayout& rows() const { return rows_; }
  /// In the order of the forward pass.
  ParameterList parameters();
  /// The extra losses of its sublayers.
  ExtraLossList extra_losses();
  /// The loads of its experts, layer by layer.
  ExpertLoadList expert_loads();
  /// The parameters by FSDP unit: the embedding, each block, the final norm, the output layer, each
  /// depth of multi-token prediction. Word embeddings that another stage has a copy of are a unit
  /// of their own.
  std::vector<ParameterList> fsdp_units();
  FsdpUnitNumbers fsdp_unit_numbers() const;
  /// The size of the rotary tables for that many positions.
  std::int64_t rope_bytes(std::int64_t positions) const { return rope_.bytes(positions); }
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t keys) const;

  std::optional<Embedding> embedding;
  std::deque<Block> blocks;
  std::unique_ptr<Norm> final_norm;
  std::optional<LmHead> head;
  /// On the stage with the output layer. Without an embedding, the stage has a copy of the word
  /// embeddings for them.
  std::deque<MtpLayer> mtp;

 private:
  void make_head(const ModelSpec& spec, const LayerContext& layer_context);

  DType dtype_;
  std::int64_t hidden_;
  bool tied_;  ///< the output layer's weight is the word embeddings
  StagePart part_;
  RowLayout rows_;
  RopeTables rope_;
  std::unique_ptr<TokenTable> token_copy_;
};

}  // namespace tessera
