// Hugging Face's tokenizer.json, equal to tokenizers 0.23.
//
// EOD is, as in Megatron, the end-of-sequence token that transformers would have: `eos_token` of
// tokenizer_config.json or special_tokens_map.json in the same folder; where neither names one, the
// first of <|endoftext|>, <|end_of_text|>, </s>, <eos> and <｜end▁of▁sentence｜> that is a token.
//
// `truncation` and `padding` are left out, as transformers does unless asked. Bytes that are no
// UTF-8 become U+FFFD. Decoding shows special tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/tokenizer/hf/hf_added_tokens.h"
#include "tessera/tokenizer/hf/hf_decoder.h"
#include "tessera/tokenizer/hf/hf_model.h"
#include "tessera/tokenizer/hf/hf_normalizer.h"
#include "tessera/tokenizer/hf/hf_post_processor.h"
#include "tessera/tokenizer/hf/hf_pre_tokenizer.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

struct HfOptions {
  bool add_special_tokens = false;  ///< whether the post-processor's special tokens are added
  std::string eos_token;            ///< by the files beside tokenizer.json; empty: not named
};

class HfTokenizer : public Tokenizer {
 public:
  /// `text` is the JSON; `what` names the file in errors.
  HfTokenizer(std::string_view text, const std::string& what, const HfOptions& options = {});
  HfTokenizer(const HfNode& root, const std::string& what, const HfOptions& options = {});

  void encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const override;
  void encode_plain_to(std::string_view text, bool at_start,
                       std::vector<std::int32_t>& tokens) const override;
  SpecialTokens special_tokens() const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocab_size() const override {
    return static_cast<std::int64_t>(vocabulary_.tokens.size());
  }
  std::int32_t eod() const override;
  bool has_eod() const override;
  Swallowed swallows(std::int32_t special) const override { return added_.swallows(special); }
  std::int32_t find(std::string_view token) const override {
    return vocabulary_.find(std::string(token));
  }

 private:
  void read(const HfNode& root);
  /// How added tokens are found: HfAddedTokens::split or split_plain.
  using Split = std::vector<HfAddedTokens::Part> (HfAddedTokens::*)(std::string_view, bool) const;
  void encode_by(Split split, std::string_view text, bool at_start,
                 std::vector<std::int32_t>& tokens) const;
  void encode_part(Split split, std::string_view text, bool at_start,
                   std::vector<std::int32_t>& tokens) const;

  std::string what_;
  HfOptions options_;
  HfVocabulary vocabulary_;
  std::unique_ptr<HfNormalizer> normalizer_;
  HfAddedTokens added_;
  HfPreTokenizers pre_;
  std::unique_ptr<HfModel> model_;
  std::unique_ptr<HfDecoder> decoder_;
  HfTemplate template_;
  std::int32_t unknown_ = -1;  // the model's token for unknown text
};

/// Reads a tokenizer.json, or that of a folder, and the files beside it.
std::unique_ptr<Tokenizer> read_hf_tokenizer(const fs::path& path, HfOptions options = {});

}  // namespace tessera
