// The tensors of one rank of TensorRT-LLM, and the boxes of our parameters that each is made of.
// Queries, keys and values are one matrix, in three blocks, with the rank's heads; with fewer key
// heads than ranks, ranks share a key head. In a gated MLP TensorRT-LLM calls our gate `fc` and our
// `up` `gate`. Of experts `fc` is both, up above gate, and ranks share the width of each expert.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/options/model_options.h"

namespace tessera {

struct TrtPart {
  std::string name;  ///< one of our parameters
  Shape offset;      ///< a box of it
  Shape extent;
};

struct TrtTensor {
  std::string name;
  Shape shape;
  /// One below the other; rows that they leave are zero. With three dimensions that is said of the
  /// matrix of each expert.
  std::vector<TrtPart> parts;
  bool accumulator = false;  ///< in the accumulator type: routers
};

/// Why this model cannot be given to TensorRT-LLM in so many parts; empty when it can.
std::string trtllm_problem(const ModelOptions& model, int ranks);

std::vector<TrtTensor> trtllm_tensors(const ModelOptions& model, int ranks, int rank);

}  // namespace tessera
