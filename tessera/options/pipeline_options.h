// How layers and microbatches are spread over a pipeline. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

enum class ScheduleKind {
  automatic,    ///< 1F1B, or interleaved where ranks have several chunks
  gpipe,        ///< all forwards, then all backwards
  one_f_one_b,  ///< a backward after each forward, once the pipeline is full
  interleaved,  ///< the same over several chunks of the model on each rank
  zb_h1,        ///< backward split in two: weight gradients fill what would be idle time
  zb_v,         ///< the same over two chunks on each rank, there and back again
  search,       ///< found for given times and memory
};

/// Values that are marked "derived" are filled in by resolve (config/resolve.h).
struct PipelineOptions {
  ScheduleKind schedule = ScheduleKind::automatic;
  int chunks = 1;                ///< of the model on each rank (virtual stages); derived
  int virtual_stages = 0;        ///< the same, as a user says it; 0: not said that way
  int layers_per_chunk = 0;      ///< 0: not said that way
  int microbatch_group = 0;      ///< interleaved: microbatches of a chunk in a row; 0: ranks
  std::string layout;            ///< Et*3|(tt|)*29L; empty: by the counts below
  int first_layers = 0;          ///< of the first rank; 0: as many as others
  int last_layers = 0;           ///< of the last rank
  bool count_embedding = false;  ///< the embedding is a layer, when layers are shared evenly
  bool count_loss = false;       ///< so is the output layer with its loss
  /// search: how long forward and the two halves of backward take, of each stage or of all alike.
  std::vector<double> action_times;
  int memory_limit = 0;  ///< search: microbatches that a rank may hold; 0: as many as ranks

  bool operator==(const PipelineOptions&) const = default;
};

}  // namespace tessera
