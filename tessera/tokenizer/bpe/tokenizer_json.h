// Writes a trained tokenizer as a tokenizer.json, for Hugging Face's tokenizers and for
// hf_tokenizer.h.
#pragma once

#include <string>
#include <string_view>

#include "tessera/options/train_tokenizer_options.h"
#include "tessera/tokenizer/bpe/train_bpe.h"

namespace tessera {

/// The regular expression that cuts text into pieces.
std::string_view pattern_of(TrainPattern pattern);

/// The file's content.
std::string tokenizer_json(const LearnedBpe& learned, const TrainTokenizerOptions& options);

}  // namespace tessera
