// Makes a tokenizer.json of byte-level byte pair encoding from text. The same text gives the same
// file, whatever the number of threads.
#pragma once

#include <cstdint>

#include "tessera/options/train_tokenizer_options.h"

namespace tessera {

struct TrainedTokenizer {
  std::int64_t bytes = 0;       ///< of text that was read
  std::int64_t pieces = 0;      ///< that differ
  std::int64_t vocab_size = 0;  ///< may be less than was asked for, when the text is short
};

/// Reads the inputs and writes options.output. InputError names a file that cannot be read, with
/// the line if it is one of JSON.
TrainedTokenizer train_tokenizer(const TrainTokenizerOptions& options);

}  // namespace tessera
