// The output paths of a run.
#pragma once

#include <memory>

#include "tessera/base/folder_lock.h"
#include "tessera/launch/rank.h"
#include "tessera/options/train_options.h"

namespace tessera {

/// InputError on all ranks unless every output path of the options is writable; checked before
/// anything is written. Rank 0 then locks the folder of --save and removes staging directories of
/// interrupted saves. This precedes the search for a checkpoint, since another run that is still
/// writing may commit one. All ranks call it together.
std::unique_ptr<FolderLock> acquire_output_paths(const TrainOptions& options, const Rank& rank);

}  // namespace tessera
