// Splits the input of preprocessing into batches of documents, in order, without parsing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/files/input_files.h"
#include "tessera/data/files/line_reader.h"

namespace tessera {

/// Everything before it has been read: whole files, and `line` lines of `bytes` of the next one.
struct InputPosition {
  std::int64_t file = 0;
  std::int64_t line = 0;
  std::int64_t bytes = 0;  ///< of its text

  bool operator==(const InputPosition&) const = default;
};

/// A line of JSON, or a whole text.
struct RawDocument {
  std::size_t file = 0;
  std::int64_t line = 0;  ///< from 1; 0 for a whole text
  std::size_t at = 0;     ///< in the batch's text
  std::size_t size = 0;
  bool too_long = false;  ///< and therefore left out
};

struct DocumentBatch {
  /// One after the other; behind the last, there is room for readers that look ahead.
  std::string text;
  std::vector<RawDocument> documents;
  InputPosition end;            ///< behind the last document
  std::int64_t bytes = 0;       ///< of text that was read for it
  std::int64_t file_bytes = 0;  ///< of all files, as they are stored, used up to its end

  std::string_view of(const RawDocument& document) const {
    return std::string_view(text).substr(document.at, document.size);
  }
};

class DocumentReader {
 public:
  /// `files` must outlive it. No document may have more than `max_bytes`.
  DocumentReader(const std::vector<InputFile>& files, const InputPosition& start,
                 std::size_t max_bytes);

  /// The next documents, of about 256 KiB together; nothing at the end. Blank lines are dropped.
  /// InputChanged at the end of a file that is another one than at the start.
  std::optional<DocumentBatch> next();

 private:
  void add(DocumentBatch& batch, std::string_view text, bool too_long);
  void add_text_file(DocumentBatch& batch);
  void add_lines(DocumentBatch& batch);
  void end_file();

  const std::vector<InputFile>& files_;
  std::size_t max_bytes_;
  InputPosition at_;
  std::int64_t finished_bytes_ = 0;  // of the files before the current one, as they are stored
  std::optional<LineReader> lines_;
  std::string line_;
};

}  // namespace tessera
