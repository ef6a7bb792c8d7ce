#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/tokenizer/bpe/byte_alphabet.h"
#include "tessera/tokenizer/bpe/byte_bpe_tokenizer.h"
#include "tessera/tokenizer/text_lines.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxGpt2FileBytes = std::size_t{1} << 28;
constexpr std::string_view kEndOfText = "<|endoftext|>";

// EOD is kept apart: its text is not written in bytes.
void read_vocabulary_text(std::string_view text, const std::string& path, BpeSpec& spec,
                          SpecialTokens& special) {
  const Json vocabulary = parse_json(text, path);
  check_input(vocabulary.is_object(),
              "'{}' is not a vocabulary: expected {{\"token\": number, ...}}", path);
  for (const auto& [token, number] : vocabulary.items()) {
    check_input(number.is_number_integer() && number >= 0 && number < (1 << 26),
                "'{}': token '{}' has no number from 0 to {}", path, token, (1 << 26) - 1);
    const auto bytes = bytes_of_alphabet(token);
    if (token == kEndOfText)
      special.emplace_back(token, number.get<std::int32_t>());
    else if (bytes)
      spec.tokens.emplace_back(*bytes, number.get<std::int32_t>());
    else
      fail_input("'{}': token '{}' is not written in GPT-2's alphabet of bytes", path, token);
  }
  check_input(!special.empty(), "'{}' has no token {}, which ends a document", path, kEndOfText);
  std::array<bool, 256> has{};
  for (const auto& [bytes, number] : spec.tokens)
    if (bytes.size() == 1) has[static_cast<unsigned char>(bytes[0])] = true;
  const auto missing = std::find(has.begin(), has.end(), false) - has.begin();
  check_input(missing == 256, "'{}' has no token for the byte 0x{:02X}: text with it would be lost",
              path, missing);
}

void read_merges_text(std::string_view text, const std::string& path, BpeSpec& spec) {
  each_line(text, [&](std::string_view line, std::size_t number) {
    if (number == 1 && line.starts_with("#version")) return;
    const std::size_t space = line.find(' ');
    const bool two =
        space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos;
    const auto left = two ? bytes_of_alphabet(line.substr(0, space)) : std::nullopt;
    const auto right = two ? bytes_of_alphabet(line.substr(space + 1)) : std::nullopt;
    check_input(
        left && right && !left->empty() && !right->empty(),
        "{}:{}: expected two tokens with a space between them, in GPT-2's alphabet of bytes", path,
        number);
    spec.merges.push_back({*left, *right});
  });
  check_input(!spec.merges.empty(),
              "'{}' has no merges, without which every byte is a token: expected lines of two "
              "tokens each (merges.txt)",
              path);
}

}  // namespace

std::unique_ptr<Tokenizer> parse_gpt2_tokenizer(std::string_view vocabulary,
                                                const std::string& vocab_file,
                                                std::string_view merges,
                                                const std::string& merge_file) {
  BpeSpec spec;
  SpecialTokens special;
  read_vocabulary_text(vocabulary, vocab_file, spec, special);
  read_merges_text(merges, merge_file, spec);
  const std::int32_t eod = special.front().second;
  try {
    spec.tokens.emplace_back(kEndOfText, eod);
    return std::make_unique<ByteBpeTokenizer>(spec, make_splitter(kGpt2Pattern), SpecialTokens{},
                                              eod);
  } catch (const InputError& error) {
    fail_input("'{}' with '{}': {}", vocab_file, merge_file, error.what());
  }
}

std::unique_ptr<Tokenizer> read_gpt2_tokenizer(const std::string& vocab_file,
                                               const std::string& merge_file) {
  return parse_gpt2_tokenizer(read_text_file(vocab_file, kMaxGpt2FileBytes), vocab_file,
                              read_text_file(merge_file, kMaxGpt2FileBytes), merge_file);
}

}  // namespace tessera
