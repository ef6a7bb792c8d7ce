// Embedding layer: word embeddings, with the vocabulary split over the tensor-parallel group,
// learned position embeddings, and dropout.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/nn/token_table.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

class Embedding {
 public:
  struct Scratch {
    TokenTable::Scratch tokens;
    View dropped;  ///< the gradient after backward through dropout and scale
  };

  Embedding(const EmbeddingSpec& spec, const LayerContext& layer);
  /// One that looks tokens up in the table of another, and has no learned positions. The name
  /// selects its dropout masks.
  Embedding(const std::string& name, const EmbeddingSpec& spec, const LayerContext& layer,
            TokenTable& tokens);

  void collect(ParameterList& parameters);
  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, bool gradients) const;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape) const;

  /// y: this rank's part of the residual stream.
  void forward(Context&, const Microbatch&, View y, const Scratch&) const;
  /// State passed from the first half of backward to the second.
  struct Pending {
    ConstView dy;  ///< gradient after backward through dropout and scale
    WorkHandle gather;
  };
  /// start_backward adds the gradient of the position embeddings, finish_backward that of the word
  /// embeddings. The two gradients may lie in the same memory, which is used for one after the
  /// other.
  [[nodiscard]] Pending start_backward(Context&, const Microbatch&, ConstView dy, const Scratch&);
  void finish_backward(Context&, const Microbatch&, const Pending&, const Scratch&);

  /// The word embeddings, for others that share them.
  TokenTable& tokens() { return *tokens_; }
  Parameter& table() { return tokens_->parameter(); }

 private:
  DropoutSpec dropout(const Microbatch&) const;
  /// The positions of this rank's rows, i32.
  ConstView positions_of(const Microbatch&) const;

  EmbeddingSpec spec_;
  DType dtype_;
  RowLayout rows_;
  RngKey dropout_key_;
  std::unique_ptr<TokenTable> own_;
  TokenTable* tokens_;
  std::optional<Parameter> positions_;
};

}  // namespace tessera
