// Writes a pair of files in Megatron's layout: `prefix.bin` holds the tokens of all sequences back
// to back, `prefix.idx` says where each sequence and document is (index_table.h has the layout).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/pending_file.h"
#include "tessera/data/token_type.h"

namespace tessera {

/// Tokens go to the disk as they come; memory holds 4 bytes per sequence and 8 per document.
/// Nothing appears under the real names before finish(), and a pair never mixes old and new files:
/// an older .idx goes away first, and the new one comes last.
class IndexedDatasetWriter {
 public:
  /// `type` is u16 or i32.
  IndexedDatasetWriter(const std::string& prefix, TokenType type);

  /// One document of one sequence; without tokens it is a document of no sequence, as in Megatron.
  void add_document(std::span<const std::int32_t> tokens);
  /// For documents of several sequences: add each, then end the document.
  void add_sequence(std::span<const std::int32_t> tokens);
  void end_document();
  void finish();

  std::int64_t documents() const { return static_cast<std::int64_t>(document_starts_.size()) - 1; }
  std::int64_t tokens() const { return tokens_; }

 private:
  void write_index();

  std::string bin_name_;
  TokenType type_;
  PendingFile bin_;
  PendingFile idx_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> document_starts_{0};
  std::vector<std::uint16_t> narrow_;  // a sequence on its way to a u16 file
  std::int64_t tokens_ = 0;
};

}  // namespace tessera
