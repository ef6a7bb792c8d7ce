// What text becomes which token files. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/data_options.h"

namespace tessera {

struct PreprocessOptions {
  std::vector<std::string> inputs;  ///< .txt files, one document each; all others are JSON lines
  std::string output_prefix;        ///< makes {output_prefix}_{key}_document.bin and .idx
  std::vector<std::string> json_keys = {"text"};
  bool append_eod = false;  ///< an end-of-document token after each document
  TokenizerKind tokenizer = TokenizerKind::bytes;
  std::int64_t vocab_size = 0;  ///< of the null tokenizer, before its EOD

  bool operator==(const PreprocessOptions&) const = default;
};

}  // namespace tessera
