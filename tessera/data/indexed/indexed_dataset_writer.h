// Writes a pair of files in Megatron's layout: `prefix.bin` holds the tokens of all sequences back
// to back, `prefix.idx` says where each sequence and document is (index_table.h has the layout).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/data/indexed/token_spool.h"

namespace tessera {

/// Tokens and tables go to the disk as they come; memory does not grow. Nothing appears under the
/// real names before finish(), and a pair never mixes old and new files. What is not finished
/// leaves nothing behind.
class IndexedDatasetWriter {
 public:
  IndexedDatasetWriter(const std::string& prefix, TokenType type);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

  /// One document of one sequence; without tokens it is a document of no sequence, as in Megatron.
  void add_document(std::span<const std::int32_t> tokens);
  /// For documents of several sequences: add each, then end the document. For u16 and i32.
  void add_sequence(std::span<const std::int32_t> tokens) { spool_.add_sequence(tokens); }
  /// A sequence as it is stored, in the pair's own type.
  void add_stored(std::span<const std::byte> tokens) { spool_.add_stored(tokens); }
  void end_document() { spool_.end_document(); }
  void finish();

  std::int64_t documents() const { return spool_.position().documents; }
  std::int64_t sequences() const { return spool_.position().sequences; }
  std::int64_t tokens() const { return spool_.position().tokens; }

 private:
  std::string prefix_;
  std::string base_;
  TokenSpool spool_;
};

}  // namespace tessera
