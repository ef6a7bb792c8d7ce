// Text to token files, as Megatron's preprocess_data.py does it.
//
// A line of a JSON-lines file is an object; the value of each key asked for is a string (a document
// of one sequence) or an array of strings (a document with a sequence for each). Strings without
// tokens make no sequence and get no EOD. Blank lines are skipped.
#pragma once

#include <cstdint>

#include "tessera/data/preprocess_options.h"

namespace tessera {

struct PreprocessStats {
  std::int64_t documents = 0;  ///< over all keys, empty ones included
  std::int64_t tokens = 0;     ///< over all keys, EOD included
  std::int64_t bytes = 0;      ///< read
};

/// InputError names the file and the line of the first mistake; then nothing is left written.
PreprocessStats preprocess(const PreprocessOptions& options);

}  // namespace tessera
