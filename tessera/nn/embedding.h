// Token embeddings (rows of the vocabulary split over the tensor-parallel group), learned
// positions, dropout.
#pragma once

#include <optional>

#include "tessera/nn/linear.h"
#include "tessera/nn/microbatch.h"

namespace tessera {

struct EmbeddingSpec {
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t positions = 0;  ///< learned positions; 0 means none
  double dropout = 0.0;
  double init_std = 0.02;
};

/// This rank's rows of a [vocab, hidden] table; used by the embedding and by the output layer.
Parameter vocab_parallel_table(const std::string& name, std::int64_t vocab, std::int64_t hidden,
                               double init_std, const LayerSite& site);

class Embedding {
 public:
  struct Scratch {
    View dropped;  ///< [N, hidden]: the gradient behind the dropout
  };

  Embedding(const EmbeddingSpec& spec, const LayerSite& site);

  void collect(ParameterList& parameters);
  Scratch carve_scratch(Carver& scratch, const BatchShape& shape) const;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape) const;

  void forward(Context&, const Microbatch&, View y) const;
  void backward(Context&, const Microbatch&, ConstView dy, const Scratch&);

  /// The table, for an output layer that shares it.
  Parameter& table() { return table_; }

 private:
  DropoutSpec dropout(const Microbatch&) const;

  EmbeddingSpec spec_;
  DType dtype_;
  std::int64_t first_row_;
  RngKey dropout_key_;
  Parameter table_;
  std::optional<Parameter> positions_;
};

}  // namespace tessera
