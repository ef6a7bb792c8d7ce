// The placement of pipeline stages on ranks. A model's layers are divided into stages, and a rank
// may have several of them, its chunks.
//
//   loop, 3 ranks, 2 chunks              vee
//   rank 0   stages 0, 3                 stages 0, 5
//   rank 1   stages 1, 4                 stages 1, 4
//   rank 2   stages 2, 5                 stages 2, 3
#pragma once

#include <compare>

namespace tessera {

enum class StagePlacement { loop, vee };

/// The shape that schedules are made for.
struct PipelineShape {
  int ranks = 1;
  int microbatches = 1;
  int chunks = 1;  ///< on each rank
  StagePlacement placement = StagePlacement::loop;
  int group = 0;  ///< interleaved: consecutive microbatches per chunk; 0: the number of ranks

  int stages() const { return ranks * chunks; }
  int group_size() const { return group > 0 ? group : ranks; }
};

struct StagePlace {
  int rank = 0;
  int chunk = 0;
  auto operator<=>(const StagePlace&) const = default;
};

/// The rank and chunk of a stage.
StagePlace place_of(const PipelineShape& shape, int stage);
/// The stage of a rank's chunk.
int stage_at(const PipelineShape& shape, const StagePlace& place);

}  // namespace tessera
