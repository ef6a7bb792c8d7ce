// Counts the pieces that a pattern splits the text of many files into, with several threads.
#pragma once

#include <cstdint>

#include "tessera/options/train_tokenizer_options.h"
#include "tessera/tokenizer/bpe/train_bpe.h"

namespace tessera {

struct CountedPieces {
  PieceCounts counts;
  std::int64_t bytes = 0;  ///< of text
};

/// Files are cut at line ends into chunks, which threads share: the cuts, and so the pieces, do not
/// depend on their number. InputError names the file, and the line if it is one of JSON.
CountedPieces count_pieces(const TrainTokenizerOptions& options);

}  // namespace tessera
