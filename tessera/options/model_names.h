// The values of the enumerations of ModelOptions, by name, as flags and messages spell them.
#pragma once

#include <string_view>

#include "tessera/base/activation.h"
#include "tessera/options/model_options.h"

namespace tessera {

// Each gives the enumerator's name; empty for a number that is none.

constexpr std::string_view to_string(PositionEmbedding value) {
  switch (value) {
    case PositionEmbedding::learned_absolute: return "learned_absolute";
    case PositionEmbedding::rope: return "rope";
    case PositionEmbedding::none: return "none";
  }
  return {};
}

constexpr std::string_view to_string(Normalization value) {
  switch (value) {
    case Normalization::layer_norm: return "LayerNorm";
    case Normalization::rms_norm: return "RMSNorm";
  }
  return {};
}

constexpr std::string_view to_string(RopeScaling value) {
  switch (value) {
    case RopeScaling::none: return "none";
    case RopeScaling::linear: return "linear";
    case RopeScaling::llama3: return "llama3";
    case RopeScaling::yarn: return "yarn";
  }
  return {};
}

constexpr std::string_view to_string(NormPlacement value) {
  switch (value) {
    case NormPlacement::before: return "before";
    case NormPlacement::after: return "after";
    case NormPlacement::before_and_after: return "before_and_after";
  }
  return {};
}

constexpr std::string_view to_string(ParallelBlock value) {
  switch (value) {
    case ParallelBlock::none: return "none";
    case ParallelBlock::one_norm: return "one_norm";
    case ParallelBlock::two_norms: return "two_norms";
  }
  return {};
}

constexpr std::string_view to_string(QkNorm value) {
  switch (value) {
    case QkNorm::none: return "none";
    case QkNorm::per_head: return "per_head";
    case QkNorm::whole_width: return "whole_width";
    case QkNorm::l2: return "l2";
  }
  return {};
}

// Megatron's names.
constexpr std::string_view to_string(SoftmaxType value) {
  switch (value) {
    case SoftmaxType::vanilla: return "vanilla";
    case SoftmaxType::off_by_one: return "off-by-one";
    case SoftmaxType::learnable: return "learnable";
  }
  return {};
}

constexpr std::string_view to_string(RouterScore value) {
  switch (value) {
    case RouterScore::softmax: return "softmax";
    case RouterScore::sigmoid: return "sigmoid";
  }
  return {};
}

// Megatron's names.
constexpr std::string_view to_string(MoeBalance value) {
  switch (value) {
    case MoeBalance::none: return "none";
    case MoeBalance::sequence: return "seq_aux_loss";
    case MoeBalance::microbatch: return "aux_loss";
    case MoeBalance::global: return "global_aux_loss";
  }
  return {};
}

constexpr std::string_view to_string(DropPolicy value) {
  switch (value) {
    case DropPolicy::probs: return "probs";
    case DropPolicy::position: return "position";
  }
  return {};
}

}  // namespace tessera
