// Where tokens come from. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

enum class TokenizerKind {
  bytes,
  null
};  ///< null: the data is already tokens; vocab_size says how many

/// Vocabulary of the byte tokenizer: the 256 bytes, then end-of-document.
inline constexpr std::int64_t kByteVocabulary = 257;

struct DataOptions {
  std::string data_path;  ///< prefix of a .bin/.idx pair
  bool mock_data = false;
  std::string split = "969,30,1";  ///< train, validation, test
  std::string data_cache_path;     ///< empty: indices are built anew in memory
  std::int64_t seq_length = 0;
  std::uint64_t seed = 1234;
  TokenizerKind tokenizer = TokenizerKind::bytes;
  std::int64_t vocab_size = 0;        ///< of the null tokenizer, before its EOD
  bool eod_mask_loss = false;         ///< no loss where the input token is end-of-document
  bool reset_position_ids = false;    ///< positions start again after each end-of-document
  bool reset_attention_mask = false;  ///< no token sees another document's

  bool operator==(const DataOptions&) const = default;
};

}  // namespace tessera
