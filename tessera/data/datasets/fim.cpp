#include "tessera/data/datasets/fim.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using TokenSpan = std::span<const std::int32_t>;

bool happens(std::uint32_t word, double probability) {
  return uniform_from_word(word) < probability;
}

// Uniform in [0, count): the bias is less than count / 2^32.
std::size_t below(std::uint32_t word, std::size_t count) {
  return static_cast<std::size_t>(std::uint64_t{word} * count >> 32);
}

// Where the characters of a text begin, and its end.
std::vector<std::size_t> character_bounds(std::string_view text) {
  std::vector<std::size_t> bounds;
  bounds.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).length)
    bounds.push_back(at);
  bounds.push_back(text.size());
  return bounds;
}

void append_tokens(TokenSpan tokens, std::vector<std::int32_t>& out) {
  out.insert(out.end(), tokens.begin(), tokens.end());
}

// Calls `add` with every part between tokens that are separators, and its number; each separator
// goes to `out` behind its part. Nothing is between two separators that are neighbours.
void add_parts(TokenSpan tokens, const auto& separates, const auto& add,
               std::vector<std::int32_t>& out) {
  for (std::size_t number = 0; !tokens.empty(); ++number) {
    const auto separator = std::find_if(tokens.begin(), tokens.end(), separates);
    const auto length = static_cast<std::size_t>(separator - tokens.begin());
    if (length > 0) add(number, tokens.first(length));
    if (length == tokens.size()) return;
    out.push_back(*separator);
    tokens = tokens.subspan(length + 1);
  }
}

}  // namespace

FimTokens fim_tokens(const FimOptions& options, const Tokenizer& tokenizer) {
  const auto token = [&](const char* flag, const std::string& text) {
    return named_token(tokenizer, flag, text);
  };
  FimTokens tokens{};
  tokens.prefix = token("fim-prefix-token", options.prefix_token);
  tokens.middle = token("fim-middle-token", options.middle_token);
  tokens.suffix = token("fim-suffix-token", options.suffix_token);
  tokens.pad = token("fim-pad-token", options.pad_token);
  tokens.eod = tokenizer.eod();
  tokens.second_eod =
      options.eod_token.empty() ? tokens.eod : token("fim-eod-token", options.eod_token);
  tokens.split =
      options.split_sample.empty() ? -1 : token("fim-split-sample", options.split_sample);
  std::vector<std::int32_t> marks{tokens.prefix, tokens.middle, tokens.suffix, tokens.eod};
  if (tokens.second_eod != tokens.eod) marks.push_back(tokens.second_eod);
  if (tokens.split >= 0) marks.push_back(tokens.split);
  std::ranges::sort(marks);
  const auto same = std::ranges::adjacent_find(marks);
  check_input(
      same == marks.end(),
      "token {} has two meanings: --fim-prefix-token, --fim-middle-token, "
      "--fim-suffix-token, --fim-split-sample and the tokens that end documents must differ",
      same == marks.end() ? 0 : *same);
  check_input(
      tokenizer.encode("").empty(),
      "--fim-data encodes parts of texts, but this tokenizer puts tokens around every text: give "
      "--tokenizer-hf-no-include-special-tokens, or, in place of Llama2Tokenizer, "
      "GPTSentencePieceTokenizer with the same file");
  return tokens;
}

FillInTheMiddle::FillInTheMiddle(const FimOptions& options, const Tokenizer& tokenizer,
                                 std::uint64_t seed)
    : options_(options),
      tokenizer_(tokenizer),
      tokens_(fim_tokens(options, tokenizer)),
      key_(rng_key(seed, RngPurpose::sampling, "fill in the middle")) {}

Philox4 FillInTheMiddle::draw(std::int64_t sample, std::size_t document,
                              std::size_t fragment) const {
  const auto number = static_cast<std::uint64_t>(sample);
  return philox(key_,
                {{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                  static_cast<std::uint32_t>(document), static_cast<std::uint32_t>(fragment)}});
}

std::vector<std::int32_t> FillInTheMiddle::rearranged(std::int64_t sample, TokenSpan tokens) const {
  Tokens out;
  out.reserve(tokens.size() + tokens.size() / 4);
  add_parts(
      tokens, [&](std::int32_t token) { return tokens_.ends_document(token); },
      [&](std::size_t number, TokenSpan document) { add_document(sample, number, document, out); },
      out);
  return out;
}

// With fragments the rate decides for the document, and their own rate for each of them.
void FillInTheMiddle::add_document(std::int64_t sample, std::size_t number, TokenSpan document,
                                   Tokens& out) const {
  const Philox4 words = draw(sample, number, 0);
  if (tokens_.split < 0 || std::ranges::find(document, tokens_.split) == document.end())
    return add_text(words, options_.rate, document, out);
  if (!happens(words.v[0], options_.rate)) return append_tokens(document, out);
  add_parts(
      document, [&](std::int32_t token) { return token == tokens_.split; },
      [&](std::size_t fragment, TokenSpan text) {
        add_text(draw(sample, number, fragment + 1), options_.fragment_rate, text, out);
      },
      out);
}

void FillInTheMiddle::add_text(const Philox4& words, double rate, TokenSpan text,
                               Tokens& out) const {
  if (!happens(words.v[0], rate)) return append_tokens(text, out);
  const std::string decoded = tokenizer_.decode(text);
  if (!options_.no_prefix.empty() && decoded.starts_with(options_.no_prefix))
    return append_tokens(text, out);
  add_rearranged(words, decoded, out);
}

// Parts may be empty: the cuts fall anywhere, and may be equal.
void FillInTheMiddle::add_rearranged(const Philox4& words, std::string_view text,
                                     Tokens& out) const {
  const std::vector<std::size_t> bounds = character_bounds(text);
  const std::size_t one = bounds[below(words.v[1], bounds.size())];
  const std::size_t other = bounds[below(words.v[2], bounds.size())];
  const std::size_t first = std::min(one, other), second = std::max(one, other);
  const std::string_view prefix = text.substr(0, first);
  const std::string_view middle = text.substr(first, second - first);
  const std::string_view suffix = text.substr(second);
  const bool suffix_first = happens(words.v[3], options_.spm_rate);
  out.push_back(tokens_.prefix);
  if (!suffix_first) tokenizer_.encode_to(prefix, out);
  out.push_back(tokens_.suffix);
  tokenizer_.encode_to(suffix, out);
  out.push_back(tokens_.middle);
  if (suffix_first) tokenizer_.encode_to(prefix, out);
  tokenizer_.encode_to(middle, out);
}

}  // namespace tessera
