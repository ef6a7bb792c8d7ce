#include "tessera/data/preprocess/document_reader.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{1} << 18;
constexpr std::size_t kBatchLines = 4096;
constexpr std::size_t kLookAhead = 64;

// The whole text, or nothing when it has more than `limit` bytes.
std::optional<std::string> read_all(ByteSource& source, std::size_t limit) {
  std::string text;
  while (true) {
    constexpr std::size_t kPiece = std::size_t{1} << 16;
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    text.resize(before + source.read(text.data() + before, kPiece));
    if (text.size() == before) return text;
    if (text.size() > limit) return std::nullopt;
  }
}

}  // namespace

DocumentReader::DocumentReader(const std::vector<InputFile>& files, const InputPosition& start,
                               std::size_t max_bytes)
    : files_(files), max_bytes_(max_bytes), at_(start) {
  for (std::int64_t i = 0; i < start.file; ++i)
    finished_bytes_ += files_.at(static_cast<std::size_t>(i)).size;
}

void DocumentReader::add(DocumentBatch& batch, std::string_view text, bool too_long) {
  batch.documents.push_back(
      {static_cast<std::size_t>(at_.file), at_.line, batch.text.size(), text.size(), too_long});
  batch.text += text;
}

void DocumentReader::add_text_file(DocumentBatch& batch) {
  const InputFile& file = files_[static_cast<std::size_t>(at_.file)];
  const auto source = open_source(file.path);
  const std::optional<std::string> text = read_all(*source, max_bytes_);
  at_.line = 0;
  std::string_view shown = text ? *text : std::string_view();
  shown.remove_prefix(check_text_start(shown, file.path));
  add(batch, shown, !text);
  batch.bytes += text ? static_cast<std::int64_t>(text->size()) : 0;
  end_file();
}

void DocumentReader::add_lines(DocumentBatch& batch) {
  if (!lines_) {
    lines_.emplace(open_source(files_[static_cast<std::size_t>(at_.file)].path), max_bytes_);
    if (at_.bytes > 0) lines_->resume(at_.line, at_.bytes);
  }
  while (batch.text.size() < kBatchBytes && batch.documents.size() < kBatchLines) {
    const bool more = lines_->next(line_);
    batch.bytes += lines_->bytes() - at_.bytes;
    at_ = {at_.file, lines_->number(), lines_->bytes()};
    if (!more) return end_file();
    if (lines_->too_long() || !is_blank(line_)) add(batch, line_, lines_->too_long());
    if (line_.capacity() > kBatchBytes) line_ = std::string();  // one long line is not kept for all
  }
}

void DocumentReader::end_file() {
  lines_.reset();
  const InputFile& file = files_[static_cast<std::size_t>(at_.file)];
  check_unchanged(file);
  finished_bytes_ += file.size;
  at_ = {at_.file + 1, 0, 0};
}

std::optional<DocumentBatch> DocumentReader::next() {
  DocumentBatch batch;
  const auto files = static_cast<std::int64_t>(files_.size());
  if (at_.file >= files) return std::nullopt;
  while (at_.file < files && batch.text.size() < kBatchBytes &&
         batch.documents.size() < kBatchLines) {
    if (files_[static_cast<std::size_t>(at_.file)].plain_text)
      add_text_file(batch);
    else
      add_lines(batch);
  }
  batch.text.reserve(batch.text.size() + kLookAhead);
  batch.end = at_;
  batch.file_bytes = finished_bytes_ + (lines_ ? lines_->file_bytes() : 0);
  return batch;
}

}  // namespace tessera
