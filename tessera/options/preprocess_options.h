// Options of preprocessing: input texts and output token files. Plain data, no code.
#pragma once

#include <string>
#include <vector>

#include "tessera/options/tokenizer_options.h"

namespace tessera {

/// How to handle an unusable document.
enum class OnError { fail, skip };

struct PreprocessOptions {
  /// Names and patterns. .txt files are one document each; all others are JSON lines. Both may be
  /// compressed: .gz, .zst.
  std::vector<std::string> inputs;
  std::string output_prefix;  ///< writes {output_prefix}_{key}_document.bin and .idx
  std::vector<std::string> json_keys = {"text"};
  /// The name or file of a chat template (tokenizer/chat/chat_template.h): input lines are
  /// conversations, and the output is {output_prefix}_messages_document and _messages_mask. Empty:
  /// they are texts.
  std::string chat_template;
  bool append_eod = false;  ///< append an end-of-document token to each document
  TokenizerOptions tokenizer;

  int workers = 0;  ///< tokenizer threads; 0: one per core
  OnError on_error = OnError::fail;
  bool save_errors = false;  ///< writes skipped documents to {output_prefix}.errors.jsonl
  std::int64_t max_line_bytes = std::int64_t{1} << 26;
  /// The amount of text between two points from which a killed run can resume.
  std::int64_t commit_bytes = std::int64_t{1} << 28;
  bool restart = false;    ///< discards the progress of a killed run
  bool overwrite = false;  ///< replaces files of an earlier run

  bool operator==(const PreprocessOptions&) const = default;
};

}  // namespace tessera
