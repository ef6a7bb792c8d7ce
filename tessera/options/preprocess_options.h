// What text becomes which token files. Plain data, no code.
#pragma once

#include <string>
#include <vector>

#include "tessera/options/tokenizer_options.h"

namespace tessera {

/// What to do about a document that cannot be used.
enum class OnError { fail, skip };

struct PreprocessOptions {
  /// Names and patterns. .txt files are one document each; all others are JSON lines. Both may be
  /// compressed: .gz, .zst.
  std::vector<std::string> inputs;
  std::string output_prefix;  ///< makes {output_prefix}_{key}_document.bin and .idx
  std::vector<std::string> json_keys = {"text"};
  /// The name or file of a chat template (tokenizer/chat/chat_template.h): lines are conversations,
  /// and make {output_prefix}_messages_document and _messages_mask. Empty: they are texts.
  std::string chat_template;
  bool append_eod = false;  ///< an end-of-document token after each document
  TokenizerOptions tokenizer;

  int workers = 0;  ///< threads that tokenize; 0: one for each core
  OnError on_error = OnError::fail;
  bool save_errors = false;  ///< makes {output_prefix}.errors.jsonl of what was skipped
  std::int64_t max_line_bytes = std::int64_t{1} << 26;
  /// Text that is read between two points that a killed run can go on from.
  std::int64_t commit_bytes = std::int64_t{1} << 28;
  bool restart = false;    ///< drops what a killed run has left
  bool overwrite = false;  ///< replaces files of an earlier run

  bool operator==(const PreprocessOptions&) const = default;
};

}  // namespace tessera
