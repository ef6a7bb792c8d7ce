// Which files a tokenizer is read from.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/options/tokenizer_options.h"

namespace tessera {

struct TokenizerFile {
  std::string name;  ///< what it is called in a Hugging Face folder, or could be
  fs::path path;     ///< where it is
};

/// None for tokenizers without files. Those that may be missing are there if they exist.
std::vector<TokenizerFile> tokenizer_files(const TokenizerOptions& options);

/// The same tokenizer, whose files have these names in `folder`.
TokenizerOptions tokenizer_in(const fs::path& folder, TokenizerOptions options);

}  // namespace tessera
