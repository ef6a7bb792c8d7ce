// What `tessera train-tokenizer` makes a tokenizer from. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

enum class TrainPattern { gpt2, llama3 };

struct TrainTokenizerOptions {
  std::vector<std::string> inputs;  ///< files or patterns: JSON lines (by name), or plain text
  std::vector<std::string> json_keys = {"text"};
  std::string output;           ///< a tokenizer.json
  std::int64_t vocab_size = 0;  ///< special tokens and the 256 bytes included
  TrainPattern pattern = TrainPattern::gpt2;
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  bool overwrite = false;  ///< a file that is there already is replaced
  int threads = 0;         ///< 0: all cores

  bool operator==(const TrainTokenizerOptions&) const = default;
};

}  // namespace tessera
