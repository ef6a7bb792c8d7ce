// The vocabularies of tokenizer.json's models.
#include <algorithm>

#include "tessera/tokenizer/hf/hf_model.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxTokens = 1 << 24;
constexpr std::size_t kMaxTokenBytes = 1 << 20;

void check_token(const HfNode& node, const std::string& token) {
  if (token.size() > kMaxTokenBytes)
    node.refuse("a token has {} bytes, more than {}", token.size(), kMaxTokenBytes);
}

// [["token", score], ...]: numbers are positions, and of equal texts the last is found.
HfVocabulary read_scored(const HfNode& vocab) {
  HfVocabulary vocabulary;
  for (const HfNode& entry : vocab.items()) {
    const std::vector<HfNode> pair = entry.items();
    if (pair.size() != 2) entry.refuse("a token and its score were expected");
    check_token(entry, pair[0].text());
    vocabulary.ids[pair[0].text()] = static_cast<std::int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.push_back(pair[0].text());
  }
  if (vocabulary.tokens.size() > static_cast<std::size_t>(kMaxTokens))
    vocab.refuse("{} tokens are more than {}", vocabulary.tokens.size(), kMaxTokens);
  vocabulary.model_tokens = vocabulary.tokens.size();
  return vocabulary;
}

}  // namespace

std::int32_t HfVocabulary::find(const std::string& token) const {
  const auto found = ids.find(token);
  return found == ids.end() ? -1 : found->second;
}

void HfVocabulary::add(const HfNode& node, const std::string& token, std::int32_t id) {
  const auto index = static_cast<std::size_t>(id);
  if (index < tokens.size() && ids.count(tokens[index]) != 0 && ids.at(tokens[index]) == id)
    node.refuse("the number {} belongs to '{:.100}' and to '{:.100}'", id, tokens[index], token);
  if (!ids.emplace(token, id).second) node.refuse("the token '{:.100}' is there twice", token);
  if (index >= tokens.size()) tokens.resize(index + 1);
  tokens[index] = token;
}

HfVocabulary read_hf_vocabulary(const HfNode& model) {
  const HfNode vocab = model.at("vocab");
  if (hf_model_type(model) == "Unigram") return read_scored(vocab);
  if (!vocab.value().is_object()) vocab.refuse("an object of tokens and numbers was expected");
  // Numbers may leave holes, but not so many that memory is filled with them.
  const std::int64_t highest =
      std::min(kMaxTokens, 16 * static_cast<std::int64_t>(vocab.value().size()) + 65536);
  HfVocabulary vocabulary;
  for (const auto& [token, number] : vocab.value().items()) {
    check_token(vocab, token);
    if (!number.is_number_integer() || number.get<std::int64_t>() < 0 ||
        (number.is_number_unsigned() && number.get<std::uint64_t>() >= 1u << 31) ||
        number.get<std::int64_t>() >= highest)
      vocab.refuse("the number of '{:.100}' is {:.40}, and not within [0, {})", token,
                   number.dump(), highest);
    vocabulary.add(vocab, token, number.get<std::int32_t>());
  }
  vocabulary.model_tokens = vocabulary.ids.size();
  return vocabulary;
}

std::string hf_model_type(const HfNode& node) {
  if (const auto type = node.find("type")) return type->text();
  if (node.find("merges")) return "BPE";
  const auto vocab = node.find("vocab");
  if (vocab && vocab->value().is_array()) return "Unigram";
  if (node.find("max_input_chars_per_word")) return "WordPiece";
  node.refuse("'type' is missing, and nothing else tells which model this is");
}

}  // namespace tessera
