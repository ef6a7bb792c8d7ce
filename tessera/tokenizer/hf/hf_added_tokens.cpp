#include "tessera/tokenizer/hf/hf_added_tokens.h"

#include <algorithm>
#include <utility>

#include "tessera/tokenizer/hf/hf_unicode.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// Every place of a text may be compared with so many.
constexpr std::size_t kMostBytes = 4096;

bool is_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_hf_word(decode_utf8(text, previous_character(text, begin)).value))
    return false;
  return end == text.size() || !is_hf_word(decode_utf8(text, end).value);
}

}  // namespace

HfAddedTokens::HfAddedTokens(const HfNode& list, HfVocabulary& vocabulary,
                             const HfNormalizer* normalizer) {
  std::vector<std::pair<std::string, std::int32_t>> raw, normalized, plain_raw, plain_normalized;
  // As tokenizers counts: on from the number of the model's tokens, which is less than the highest
  // number where there are holes.
  const auto count = static_cast<std::int64_t>(vocabulary.model_tokens);
  std::int64_t next = count;
  for (const HfNode& node : list.items()) {
    node.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    const std::string& content = node.at("content").text();
    if (content.empty()) node.refuse("an added token has no text");
    if (content.size() > kMostBytes)
      node.refuse("'{:.100}...' has {} bytes: added tokens may have {}", content, content.size(),
                  kMostBytes);
    const bool special = node.at("special").flag();
    const auto id = static_cast<std::int32_t>(node.at("id").integer(0, (1 << 24) - 1));
    const std::int32_t known = vocabulary.find(content);
    const std::int64_t expected = known >= 0 ? known : next;
    if (id != expected)
      node.at("id").refuse(
          "'{:.100}' says {}, but Hugging Face's tokenizers would give it {} ({}): number the "
          "added "
          "tokens in order, after the vocabulary",
          content, id, expected, known >= 0 ? "that of the vocabulary" : "the next free one");
    if (known < 0) vocabulary.add(node, content, id);
    if (id >= count) next = std::max<std::int64_t>(next, id + 1);
    const Options options{node.at("single_word").flag(), node.at("lstrip").flag(),
                          node.at("rstrip").flag()};
    if (!options_.emplace(id, options).second)
      node.refuse("the added token '{:.100}' is there twice", content);
    if (special) special_.emplace_back(content, id);
    if (!node.at("normalized").flag()) {
      raw.emplace_back(content, id);
      if (!special) plain_raw.emplace_back(content, id);
      continue;
    }
    HfText text{content, true};
    if (normalizer) normalizer->normalize(text);
    if (text.text.empty()) node.refuse("nothing is left of '{:.100}' by normalizing", content);
    normalized.emplace_back(text.text, id);
    if (!special) plain_normalized.emplace_back(text.text, id);
  }
  all_ = {PrefixTrie(std::move(raw)), PrefixTrie(std::move(normalized))};
  plain_ = {PrefixTrie(std::move(plain_raw)), PrefixTrie(std::move(plain_normalized))};
}

std::vector<HfAddedTokens::Part> HfAddedTokens::split_by(const PrefixTrie& trie,
                                                         std::string_view text) const {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; !trie.empty() && at < text.size();) {
    if (!trie.starts(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    const auto match = trie.longest(text.substr(at));
    if (!match) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + match->length;
    at = end;
    const Options& options = options_.at(match->value);
    if (options.single_word && !is_alone(text, begin, end)) continue;
    if (options.lstrip) begin = std::max(skip_spaces_back(text, begin), done);
    if (options.rstrip) end = skip_spaces(text, end);
    if (begin > done) parts.push_back({text.substr(done, begin - done), -1});
    parts.push_back({text.substr(begin, end - begin), match->value});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
  return parts;
}

}  // namespace tessera
