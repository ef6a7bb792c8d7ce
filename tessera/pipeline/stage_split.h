// The layers of each pipeline stage. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/options/pipeline_options.h"
#include "tessera/parallel/sharding.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

/// The part of the model that a stage holds.
struct StagePart {
  Range layers;
  bool embedding = true;
  bool head = true;
  /// Whether the first and the last stage, which are different ones, both have word embeddings
  bool tied_apart = false;
};

/// The properties of a model that determine how it is split.
struct ModelOutline {
  std::int64_t layers = 0;
  /// The last stage needs the word embeddings, for a tied output layer or for multi-token
  /// prediction.
  bool tied = false;
  std::int64_t mtp_layers = 0;  ///< on the last stage, always
};

/// The whole model as one stage.
StagePart whole_part(const ModelOutline& model);

/// The stages in order. InputError, worded for users, if the options omit or repeat a layer, or do
/// not match the number of ranks.
std::vector<StagePart> split_stages(const ModelOutline& model, const PipelineOptions& options,
                                    int ranks);

/// The number of stages of a layout string. InputError if it cannot be parsed.
int stages_of_layout(const std::string& layout);

/// One line per rank: "rank 0: embedding, layers 0-3".
std::string describe_stages(const PipelineShape& shape, const std::vector<StagePart>& parts);

}  // namespace tessera
