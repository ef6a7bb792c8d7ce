#include "tessera/base/check.h"
#include "tessera/tokenizer/bpe/byte_bpe_tokenizer.h"
#include "tessera/tokenizer/hf/bert_files.h"
#include "tessera/tokenizer/hf/hf_tokenizer.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options) {
  switch (options.kind) {
    case TokenizerKind::bytes: return std::make_unique<ByteTokenizer>();
    case TokenizerKind::null: return std::make_unique<NullTokenizer>(options.vocab_size);
    case TokenizerKind::gpt2: return read_gpt2_tokenizer(options.vocab_file, options.merge_file);
    case TokenizerKind::hugging_face:
      return read_hf_tokenizer(options.model, {options.include_special_tokens, ""});
    case TokenizerKind::sentencepiece: return read_sentencepiece(options.model);
    case TokenizerKind::llama2: return read_sentencepiece(options.model, true);
    case TokenizerKind::tiktoken: return read_tiktoken_tokenizer(options);
    case TokenizerKind::bert_lowercase:
    case TokenizerKind::bert_cased:
      return read_bert_tokenizer(options.vocab_file, {options.kind == TokenizerKind::bert_lowercase,
                                                      options.include_special_tokens});
  }
  fail("no tokenizer of kind {}", static_cast<int>(options.kind));
}

std::int32_t named_token(const Tokenizer& tokenizer, const char* flag, const std::string& text) {
  const std::int32_t token = tokenizer.find(text);
  check_input(
      token >= 0,
      "--{} '{}': the tokenizer has no such token. Name one that it has, or add this one to "
      "its files (added_tokens of a tokenizer.json, --tiktoken-special-tokens, "
      "--special-tokens of tessera train-tokenizer); ByteTokenizer and NullTokenizer have "
      "none that could be named",
      flag, text);
  return token;
}

void read_vocabulary(TokenizerOptions& options) {
  if (!options.reads_files()) return;
  const std::int64_t size = make_tokenizer(options)->vocab_size();
  check_input(options.vocab_size == 0 || options.vocab_size >= size,
              "--vocab-size {} is less than the {} tokens of the tokenizer: raise or drop it",
              options.vocab_size, size);
  if (options.vocab_size == 0) options.vocab_size = size;
}

}  // namespace tessera
