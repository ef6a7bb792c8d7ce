#include "tessera/data/preprocess/train_tokenizer.h"

#include <iterator>

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/data/files/input_files.h"
#include "tessera/data/files/output_check.h"
#include "tessera/data/preprocess/count_pieces.h"
#include "tessera/tokenizer/bpe/tokenizer_json.h"
#include "tessera/tokenizer/split/splitter.h"

namespace tessera {
namespace {

// What the pattern leaves in one piece could come out of merges, as if it were text.
void check_special(const TrainTokenizerOptions& options) {
  const std::unique_ptr<Splitter> splitter = make_splitter(pattern_of(options.pattern));
  for (const std::string& text : options.special_tokens)
    check_input(!text.empty() && splitter->next(text, 0).end < text.size(),
                "the special token '{}' could be a word of the text: write it like <|{}|>", text,
                text);
}

// Before the text is read, which may take long.
void check_tokenizer_file(const TrainTokenizerOptions& options) {
  check_output_folder(options.output, "--output");
  std::error_code ignored;
  check_input(!fs::is_directory(options.output, ignored),
              "--output '{}' is a folder: name the file, as '{}'", options.output,
              (fs::path(options.output) / "tokenizer.json").string());
  for (const InputFile& input : find_input_files(options.inputs))
    check_is_no_input(options.output, input.path, "--output");
  check_may_write(options.output, options.overwrite, "--output");
}

}  // namespace

TrainedTokenizer train_tokenizer(const TrainTokenizerOptions& options) {
  const auto least = static_cast<std::int64_t>(256 + options.special_tokens.size());
  check_input(options.vocab_size >= least,
              "--vocab-size {} is too small: the 256 bytes and {} special token(s) are {}",
              options.vocab_size, options.special_tokens.size(), least);
  check_special(options);
  check_tokenizer_file(options);
  const CountedPieces pieces = count_pieces(options);
  check_input(pieces.bytes > 0, "there is no text in the files of --input");
  const LearnedBpe learned = learn_bpe(pieces.counts, options.special_tokens, options.vocab_size);
  write_file_atomically(options.output, tokenizer_json(learned, options));
  return {pieces.bytes, static_cast<std::int64_t>(pieces.counts.size()),
          std::ssize(learned.tokens)};
}

}  // namespace tessera
