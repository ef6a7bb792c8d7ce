// How layers and microbatches are distributed over a pipeline. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

enum class ScheduleKind {
  automatic,    ///< 1F1B, or interleaved if ranks have several chunks
  gpipe,        ///< all forwards, then all backwards
  one_f_one_b,  ///< a backward after each forward, once the pipeline is full
  interleaved,  ///< the same over several chunks of the model on each rank
  zb_h1,        ///< split backward: weight gradients fill idle time
  zb_v,         ///< the same over two chunks per rank, placed in a V
  search,       ///< searched for given durations and memory
};

/// Values that are marked "derived" are filled in by resolve (config/resolve.h).
struct PipelineOptions {
  ScheduleKind schedule = ScheduleKind::automatic;
  int chunks = 1;            ///< of the model on each rank (virtual stages); derived
  int virtual_stages = 0;    ///< number given by the user; 0: not given
  int layers_per_chunk = 0;  ///< given instead of the number; 0: not given
  /// Interleaved: consecutive microbatches per chunk; 0: number of ranks
  int microbatch_group = 0;
  std::string layout;            ///< Et*3|(tt|)*29L; empty: by the counts below
  int first_layers = 0;          ///< of the first rank; 0: as many as the others
  int last_layers = 0;           ///< of the last rank
  bool count_embedding = false;  ///< count the embedding as a layer when layers are divided evenly
  bool count_loss = false;       ///< count the output layer with its loss as a layer
  /// search: durations of forward and the two halves of backward, per stage or for all.
  std::vector<double> action_times;
  /// Search: maximum number of microbatches in flight per rank; 0: number of ranks
  int memory_limit = 0;

  bool operator==(const PipelineOptions&) const = default;
};

}  // namespace tessera
