#include <algorithm>
#include <charconv>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/tokenizer/bpe/base64.h"
#include "tessera/tokenizer/bpe/byte_bpe_tokenizer.h"
#include "tessera/tokenizer/split/known_patterns.h"
#include "tessera/tokenizer/text_lines.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxTiktokenFileBytes = std::size_t{1} << 28;
// All ways to cut a token are looked at.
constexpr std::size_t kMaxTiktokenBytes = 4096;
constexpr std::int64_t kMegatronSpecial = 1000;
constexpr std::int64_t kMegatronVocabulary = 1 << 17;

void check_length(const std::string& token, const std::string& where) {
  check_input(token.size() <= kMaxTiktokenBytes, "{}: a token of {} bytes, expected at most {}",
              where, token.size(), kMaxTiktokenBytes);
}

// Lines of base64, a space, and a rank.
void read_lines(std::string_view text, const std::string& path, BpeSpec& spec) {
  each_line(text, [&](std::string_view line, std::size_t number) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const auto bytes = from_base64(line.substr(0, space));
    std::int32_t rank = -1;
    const char* last = line.data() + line.size();
    const auto [stop, error] =
        std::from_chars(line.data() + std::min(space + 1, line.size()), last, rank);
    check_input(bytes && !bytes->empty() && error == std::errc() && stop == last && rank >= 0,
                "{}:{}: expected a token in base64, a space and its rank", path, number);
    check_length(*bytes, fmt::format("{}:{}", path, number));
    spec.tokens.emplace_back(*bytes, rank);
  });
}

// Megatron's list of {"rank", "token_bytes", "token_str"}; numbers start after the special tokens.
void read_list(std::string_view text, const std::string& path, std::int64_t first,
               std::int64_t most, BpeSpec& spec) {
  const Json list = parse_json(text, path);
  check_input(list.is_array(), "'{}' is no list of tokens", path);
  for (std::size_t i = 0; i < list.size() && std::cmp_less(i, most); ++i) {
    const Json& entry = list[i];
    const bool fits = entry.is_object() && entry.contains("rank") && entry["rank"] == i &&
                      entry.contains("token_bytes") && entry["token_bytes"].is_string();
    const auto bytes =
        fits ? from_base64(entry["token_bytes"].get_ref<const std::string&>()) : std::nullopt;
    check_input(bytes && !bytes->empty(),
                "'{}': entry {} of the list is not {{\"rank\": {}, \"token_bytes\": base64, ...}}",
                path, i, i);
    check_length(*bytes, fmt::format("'{}': entry {}", path, i));
    spec.tokens.emplace_back(*bytes,
                             static_cast<std::int32_t>(first + static_cast<std::int64_t>(i)));
  }
}

// The named ones, and <SPECIAL_n> for the rest of `count`.
SpecialTokens special_tokens(std::vector<std::string> named, std::int64_t first,
                             std::int64_t count) {
  for (std::int64_t i = std::ssize(named); i < count; ++i)
    named.push_back(fmt::format("<SPECIAL_{}>", i));
  SpecialTokens special;
  for (std::string& text : named)
    special.emplace_back(std::move(text), static_cast<std::int32_t>(first + std::ssize(special)));
  return special;
}

std::int32_t end_of_document(const SpecialTokens& special, const std::string& path) {
  for (const std::string_view name : {"</s>", "<|endoftext|>", "<|end_of_text|>"})
    for (const auto& [text, number] : special)
      if (text == name) return number;
  fail_input(
      "'{}' has no token that ends a document: name one of </s>, <|endoftext|> and "
      "<|end_of_text|> in --tiktoken-special-tokens",
      path);
}

SpecialTokens read_tokens(std::string_view text, const TokenizerOptions& options, BpeSpec& spec) {
  std::vector<std::string> named = options.tiktoken_special_tokens;
  std::int64_t count = options.tiktoken_num_special_tokens;
  if (options.model.ends_with(".json")) {
    if (named.empty()) named = {"<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"};
    if (count == 0) count = kMegatronSpecial;
    const std::int64_t size = options.vocab_size > 0 ? options.vocab_size : kMegatronVocabulary;
    check_input(count < size, "--tiktoken-num-special-tokens {} leaves no room in --vocab-size {}",
                count, size);
    read_list(text, options.model, count, size - count, spec);
    return special_tokens(named, 0, count);
  }
  if (named.empty()) named = {"<|endoftext|>"};
  read_lines(text, options.model, spec);
  std::int32_t last = -1;
  for (const auto& [bytes, rank] : spec.tokens) last = std::max(last, rank);
  return special_tokens(named, std::int64_t{last} + 1, count);
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tiktoken_tokenizer(std::string_view text,
                                                    const TokenizerOptions& options) {
  BpeSpec spec;
  spec.merge_by_number = spec.ignore_merges = true;
  const SpecialTokens special = read_tokens(text, options, spec);
  const std::int32_t eod = end_of_document(special, options.model);
  try {
    return std::make_unique<ByteBpeTokenizer>(
        spec, make_tiktoken_splitter(options.tiktoken_pattern), special, eod);
  } catch (const InputError& error) {
    fail_input("'{}': {}", options.model, error.what());
  }
}

std::unique_ptr<Tokenizer> read_tiktoken_tokenizer(const TokenizerOptions& options) {
  return parse_tiktoken_tokenizer(read_text_file(options.model, kMaxTiktokenFileBytes), options);
}

}  // namespace tessera
