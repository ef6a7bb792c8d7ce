// Encodes batches of documents to tokens; this is the work of the preprocessing threads. With a
// chat template, lines are conversations, and there are two outputs instead of one per key: the
// tokens, and a mask of the tokens that count in the loss.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/indexed/token_spool.h"
#include "tessera/data/preprocess/chat_lines.h"
#include "tessera/data/preprocess/document_reader.h"
#include "tessera/data/preprocess/json_texts.h"
#include "tessera/options/preprocess_options.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

/// Documents of one key, one after the other.
struct EncodedDocuments {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> lengths;    ///< of each sequence
  std::vector<std::int32_t> sequences;  ///< of each document

  void append_to(TokenSpool& spool) const;
};

/// The names of the outputs, and the type of their tokens.
struct OutputFile {
  std::string name;    ///< while it is written
  std::string prefix;  ///< of the finished pair
  TokenType type;
};
std::vector<OutputFile> output_files(const PreprocessOptions& options, std::int64_t vocab_size);

struct BadDocument {
  std::size_t file = 0;
  std::int64_t line = 0;  ///< from 1; 0 for a whole text
  std::string message;    ///< with the file and the line
};

struct EncodedBatch {
  std::vector<EncodedDocuments> keys;
  std::vector<BadDocument> bad;  ///< of which nothing is in `keys`
  InputPosition end;
  std::int64_t bytes = 0;
  std::int64_t file_bytes = 0;
};

/// Many threads may use one. All it refers to must outlive it.
class DocumentEncoder {
 public:
  DocumentEncoder(const PreprocessOptions& options, const std::vector<InputFile>& files,
                  const Tokenizer& tokenizer);

  EncodedBatch encode(const DocumentBatch& batch) const;

 private:
  std::string where(const RawDocument& document) const;
  void add_document(const DocumentBatch& batch, const RawDocument& document, JsonTexts& json,
                    std::vector<EncodedDocuments>& keys) const;
  void add_chat(std::string_view line, const std::string& where,
                std::vector<EncodedDocuments>& keys) const;
  void add_texts(std::span<const std::string_view> texts, const RawDocument& document,
                 std::size_t key, EncodedDocuments& out) const;

  const PreprocessOptions& options_;
  const std::vector<InputFile>& files_;
  const Tokenizer& tokenizer_;
  std::optional<ChatEncoder> chat_;
};

}  // namespace tessera
