// SentencePiece's .model files, BPE and unigram, equal to sentencepiece 0.2.2.
//
// EOD is the end-of-sequence piece (`</s>`, unless the model names another), as in Megatron's
// GPTSentencePieceTokenizer and Llama2Tokenizer. Bytes that are no UTF-8 become U+FFFD, one each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_model.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_normalizer.h"
#include "tessera/tokenizer/sentencepiece/unigram.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

class SentencePieceTokenizer : public Tokenizer {
 public:
  /// `what` names the file in errors. With `add_bos` every text starts with the
  /// beginning-of-sequence piece, as Megatron's Llama2Tokenizer has it.
  SentencePieceTokenizer(SentencePieceModel model, const std::string& what, bool add_bos = false);

  void encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const override;
  /// As SentencePiece has no other way, each span starts with the space that a text starts with.
  void encode_plain_to(std::string_view text, bool at_start,
                       std::vector<std::int32_t>& tokens) const override;
  /// The control pieces.
  SpecialTokens special_tokens() const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocab_size() const override {
    return static_cast<std::int64_t>(model_.pieces.size());
  }
  /// InputError when the model has no end-of-sequence piece.
  std::int32_t eod() const override;
  bool has_eod() const override { return control_id(model_.eos_piece).has_value(); }
  std::string piece(std::int32_t token) const override;
  std::int32_t find(std::string_view token) const override;

 private:
  void append(std::string_view piece, std::int32_t id, bool after_unknown,
              std::vector<std::int32_t>& tokens) const;
  std::optional<std::int32_t> control_id(const std::string& piece) const;

  SentencePieceModel model_;
  std::string what_;
  PrefixTrie user_defined_;
  SentencePieceNormalizer normalizer_;
  std::optional<SentencePieceNormalizer> denormalizer_;
  std::optional<Unigram> unigram_;  // without it the model is BPE
  std::vector<std::int32_t> byte_ids_;
  std::optional<std::int32_t> bos_;  // put before every text
};

/// Reads a .model file, or tokenizer.model in a folder.
std::unique_ptr<Tokenizer> read_sentencepiece(const fs::path& path, bool add_bos = false);

}  // namespace tessera
