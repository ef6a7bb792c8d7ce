// Which layers each stage of a pipeline has. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/options/pipeline_options.h"
#include "tessera/parallel/sharding.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

/// Which part of the model a stage holds.
struct StagePart {
  Range layers;
  bool embedding = true;
  bool head = true;
  bool tied_apart = false;  ///< embedding and output layer share a table, on different stages
};

/// What a split has to know of a model.
struct ModelOutline {
  std::int64_t layers = 0;
  bool tied = false;  ///< embedding and output layer share a table
};

/// All of the model.
StagePart whole_part(const ModelOutline& model);

/// The stages in their order. InputError, in words for a user, where the options leave out a layer,
/// repeat one, or do not fit the ranks.
std::vector<StagePart> split_stages(const ModelOutline& model, const PipelineOptions& options,
                                    int ranks);

/// How many stages a layout string has. InputError when it cannot be read.
int stages_of_layout(const std::string& layout);

/// In a line for each rank: "rank 0: embedding, layers 0-3".
std::string describe_stages(const PipelineShape& shape, const std::vector<StagePart>& parts);

}  // namespace tessera
