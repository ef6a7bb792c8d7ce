// The added tokens of tokenizer.json, which are found in a text before any other processing or, if
// they are marked so, after normalization.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/tokenizer/hf/hf_model.h"
#include "tessera/tokenizer/hf/hf_node.h"
#include "tessera/tokenizer/hf/hf_normalizer.h"
#include "tessera/tokenizer/sentencepiece/prefix_trie.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

class HfAddedTokens {
 public:
  /// A span of a text: a token, or text for the model (id -1).
  struct Part {
    std::string_view text;
    std::int32_t id;
  };

  HfAddedTokens() = default;
  /// Adds to the vocabulary those that the model does not have. InputError when the file's numbers
  /// are not those that Hugging Face's tokenizers would give them.
  HfAddedTokens(const HfNode& list, HfVocabulary& vocabulary, const HfNormalizer* normalizer);

  /// By the tokens that are looked for in the text as it is (`normalized` false) or after
  /// normalizing: at each place the longest.
  std::vector<Part> split(std::string_view text, bool normalized) const {
    return split_by(normalized ? all_.normalized : all_.raw, text);
  }
  /// The same by those alone that are not special.
  std::vector<Part> split_plain(std::string_view text, bool normalized) const {
    return split_by(normalized ? plain_.normalized : plain_.raw, text);
  }
  const SpecialTokens& special() const { return special_; }
  Tokenizer::Swallowed swallows(std::int32_t id) const {
    const auto found = options_.find(id);
    if (found == options_.end()) return {};
    return {found->second.lstrip, found->second.rstrip};
  }

 private:
  struct Options {
    bool single_word, lstrip, rstrip;
  };

  /// The tries of tokens that are searched before and after normalization.
  struct Tries {
    PrefixTrie raw, normalized;
  };
  std::vector<Part> split_by(const PrefixTrie& trie, std::string_view text) const;

  Tries all_, plain_;
  SpecialTokens special_;
  std::unordered_map<std::int32_t, Options> options_;
};

}  // namespace tessera
