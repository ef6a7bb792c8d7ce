// What `tessera tokenize` reads and writes. Plain data, no code.
#pragma once

#include <string>
#include <vector>

namespace tessera {

enum class TokenizeFormat {
  text,  ///< a file is one text; its tokens are numbers with spaces between them
  jsonl  ///< a line is one text, as a JSON string; its tokens are a JSON list
};

struct TokenizeOptions {
  std::vector<std::string> inputs;  ///< empty: standard input
  std::string output;               ///< empty: standard output
  bool overwrite = false;           ///< an output that is there already is replaced
  bool decode = false;              ///< from tokens to text
  bool show_pieces = false;         ///< a line for each token: its number and what it stands for
  TokenizeFormat format = TokenizeFormat::text;

  bool operator==(const TokenizeOptions&) const = default;
};

}  // namespace tessera
