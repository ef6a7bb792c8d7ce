#include <set>
#include <utility>

#include "tessera/config/rules/rules.h"
#include "tessera/config/value.h"

namespace tessera::config {
namespace {

void tiktoken_rules(const TokenizerOptions& tokenizer, Problems& problems) {
  const auto& named = tokenizer.tiktoken_special_tokens;
  problems.require(
      tokenizer.tiktoken_num_special_tokens == 0 ||
          std::cmp_less_equal(named.size(), tokenizer.tiktoken_num_special_tokens),
      "--tiktoken-special-tokens has {} texts, but --tiktoken-num-special-tokens is {}: raise it",
      named.size(), tokenizer.tiktoken_num_special_tokens);
  std::set<std::string_view> texts;
  for (const std::string& text : named)
    problems.require(texts.insert(text).second, "--tiktoken-special-tokens has {} twice",
                     quote(text));
}

}  // namespace

void tokenizer_rules(const TokenizerOptions& tokenizer, Problems& problems) {
  switch (tokenizer.kind) {
    case TokenizerKind::null:
      return problems.require(tokenizer.vocab_size > 0,
                              "--tokenizer-type NullTokenizer needs --vocab-size");
    case TokenizerKind::bytes:
      return problems.require(
          tokenizer.vocab_size == 0 || tokenizer.vocab_size >= kByteVocabulary,
          "--vocab-size {} is less than the {} tokens of ByteTokenizer: raise or drop it",
          tokenizer.vocab_size, kByteVocabulary);
    case TokenizerKind::gpt2:
      return problems.require(!tokenizer.vocab_file.empty() && !tokenizer.merge_file.empty(),
                              "--tokenizer-type GPT2BPETokenizer needs --vocab-file (vocab.json) "
                              "and --merge-file (merges.txt)");
    case TokenizerKind::bert_lowercase:
    case TokenizerKind::bert_cased:
      return problems.require(!tokenizer.vocab_file.empty(),
                              "this --tokenizer-type needs --vocab-file (vocab.txt)");
    case TokenizerKind::tiktoken: tiktoken_rules(tokenizer, problems); break;
    default: break;
  }
  problems.require(!tokenizer.model.empty(), "this --tokenizer-type needs --tokenizer-model");
}

void train_tokenizer_rules(const TrainTokenizerOptions& options, Problems& problems) {
  const auto least = static_cast<std::int64_t>(256 + options.special_tokens.size());
  problems.require(!options.output.empty(), "--output is required: where the tokenizer.json goes");
  if (options.vocab_size == 0)
    return problems.add("--vocab-size is required: the number of tokens of the new tokenizer");
  problems.require(options.vocab_size >= least,
                   "--vocab-size {} is too small: the 256 bytes and {} special token(s) are {}",
                   options.vocab_size, options.special_tokens.size(), least);
  std::set<std::string_view> texts;
  for (const std::string& text : options.special_tokens)
    problems.require(texts.insert(text).second, "--special-tokens has {} twice", quote(text));
}

}  // namespace tessera::config
