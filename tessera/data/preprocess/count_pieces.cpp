#include "tessera/data/preprocess/count_pieces.h"

#include <mutex>

#include "tessera/base/check.h"
#include "tessera/data/files/line_reader.h"
#include "tessera/data/preprocess/json_texts.h"
#include "tessera/data/preprocess/ordered_workers.h"
#include "tessera/data/preprocess/text_chunks.h"
#include "tessera/tokenizer/bpe/tokenizer_json.h"
#include "tessera/tokenizer/split/splitter.h"
#include "tessera/tokenizer/text_lines.h"

namespace tessera {
namespace {

// Counts chunks. Each thread takes sums from here and puts them back, so that there are no more of
// them than threads.
class PieceCounter {
 public:
  explicit PieceCounter(const TrainTokenizerOptions& options)
      : options_(options), splitter_(make_splitter(pattern_of(options.pattern))) {}

  void count(const TextChunk& chunk) {
    CountedPieces sums = take();
    if (chunk.file->is_json_by_name)
      add_lines(chunk, sums);
    else
      add_text(chunk.text, sums);
    const std::lock_guard lock(mutex_);
    sums_.push_back(std::move(sums));
  }

  CountedPieces all() {
    CountedPieces all = take();
    for (CountedPieces& part : sums_) {
      all.bytes += part.bytes;
      for (const auto& [piece, count] : part.counts) all.counts[piece] += count;
      part = {};
    }
    return all;
  }

 private:
  CountedPieces take() {
    const std::lock_guard lock(mutex_);
    if (sums_.empty()) return {};
    CountedPieces sums = std::move(sums_.back());
    sums_.pop_back();
    return sums;
  }

  void add_text(std::string_view text, CountedPieces& sums) const {
    sums.bytes += static_cast<std::int64_t>(text.size());
    std::string piece;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = splitter_->next(text, at).end;
      piece.assign(text.substr(at, end - at));
      ++sums.counts[piece];
      at = end;
    }
  }

  void add_lines(const TextChunk& chunk, CountedPieces& sums) const {
    JsonTexts json(options_.json_keys);
    each_line(chunk.text, [&](std::string_view line, std::size_t number) {
      if (is_blank(line)) return;
      const std::int64_t in_file = chunk.line + static_cast<std::int64_t>(number) - 1;
      json.read(line, fmt::format("{} line {}", chunk.file->shown(), in_file));
      for (const auto& texts : json.texts())
        for (const std::string_view each : texts) add_text(each, sums);
    });
  }

  const TrainTokenizerOptions& options_;
  std::unique_ptr<Splitter> splitter_;
  std::mutex mutex_;
  std::vector<CountedPieces> sums_;
};

}  // namespace

CountedPieces count_pieces(const TrainTokenizerOptions& options) {
  const std::vector<InputFile> files = find_input_files(options.inputs);
  TextChunks chunks(files);
  PieceCounter counter(options);
  const int threads = threads_or_all(options.threads);
  {
    OrderedWorkers<TextChunk, bool> workers(threads, [&](TextChunk&& chunk) {
      counter.count(chunk);
      return true;
    });
    while (std::optional<TextChunk> chunk = chunks.next()) {
      workers.put(std::move(*chunk));
      while (workers.pending() > 2 * static_cast<std::size_t>(threads)) workers.take();
    }
    while (workers.pending() > 0) workers.take();
  }
  return counter.all();
}

}  // namespace tessera
