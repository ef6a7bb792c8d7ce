// A decoder-only language model, or the part of it that one pipeline stage holds: layers and their
// parameters. What runs them, and the memory for it, is stage_runner.h.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "tessera/model/model_options.h"
#include "tessera/nn/block.h"
#include "tessera/nn/embedding.h"
#include "tessera/nn/lm_head.h"

namespace tessera {

/// Which part of the model a stage holds.
struct StagePart {
  Range layers;
  bool embedding = true;
  bool head = true;
};

/// Equal shares of the layers; the first stage has the embedding, the last one the head.
StagePart stage_part(const ModelOptions& options, int stages, int stage);

class GptModel {
 public:
  /// `positions` is the longest sequence that will be run (the size of rotary tables).
  GptModel(const ModelOptions& options, const RecomputeOptions& recompute, const StagePart& part,
           const LayerSite& site, Memory& memory, Stream& stream, std::int64_t positions);

  const ModelOptions& options() const { return options_; }
  const StagePart& part() const { return part_; }
  /// How the rows of the residual stream lie on the tensor-parallel group.
  const RowLayout& rows() const { return rows_; }
  /// In the order of the forward pass.
  ParameterList parameters();
  /// The same in units: the embedding, each block, the final norm with the head.
  std::vector<ParameterList> units();
  /// Of the rotary tables for that many positions.
  std::int64_t rope_bytes(std::int64_t positions) const;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t keys) const;

  std::optional<Embedding> embedding;
  std::deque<Block> blocks;
  std::unique_ptr<Norm> final_norm;
  std::optional<LmHead> head;

 private:
  ModelOptions options_;
  StagePart part_;
  RowLayout rows_;
  std::optional<RopeTable> rope_;
};

/// Parameters of the whole model, by options alone.
std::int64_t parameter_count(const ModelOptions& options);

}  // namespace tessera
