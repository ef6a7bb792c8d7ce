// Text to token files, as Megatron's preprocess_data.py does it, in memory that does not grow with
// the input.
//
// A line of a JSON-lines file is an object; the value of each key asked for is a string (a document
// of one sequence) or an array of strings (a document with a sequence for each). Strings without
// tokens make no sequence and get no EOD. Blank lines are skipped. Threads tokenize side by side;
// the output is the same for any number of them.
#pragma once

#include <cstdint>

#include "tessera/options/preprocess_options.h"

namespace tessera {

struct PreprocessStats {
  std::int64_t documents = 0;  ///< over all keys, empty ones included
  std::int64_t tokens = 0;     ///< over all keys, EOD included
  std::int64_t bytes = 0;      ///< of text read
  std::int64_t skipped = 0;    ///< lines and texts that could not be used
};

/// InputError names the file and the line of the first mistake, unless bad ones are skipped. A run
/// that was killed is taken up where it was, and gives the same files as one that was not
/// (preprocess_work.h). Nothing is there under the real names before all is done.
PreprocessStats preprocess(const PreprocessOptions& options);

}  // namespace tessera
