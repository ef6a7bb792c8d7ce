// Where a run writes.
#pragma once

#include <memory>

#include "tessera/base/folder_lock.h"
#include "tessera/launch/rank.h"
#include "tessera/options/train_options.h"

namespace tessera {

/// InputError unless every place can be written that the options name, on all ranks: found before
/// anything is written. Rank 0 then holds the folder of --save, without what saves that were cut
/// off have left there, before anybody looks for a checkpoint: a run that still writes may commit
/// one. All ranks call it together.
std::unique_ptr<FolderLock> acquire_output_paths(const TrainOptions& options, const Rank& rank);

}  // namespace tessera
