// Tokens and texts equal those of Hugging Face's tokenizers and of SentencePiece, for tokenizers
// that make_goldens.py made with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/tokenizer/hf/bert_files.h"
#include "tessera/tokenizer/hf/hf_tokenizer.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

namespace tessera {
namespace {

const fs::path kGolden = fs::path(TESSERA_SOURCE_DIR) / "tests/tokenizer/golden";

Json read_json(const fs::path& file) { return parse_json(read_text_file(file), file.string()); }

class Golden : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Tokenizer> read(bool special = false) const {
    const fs::path folder = kGolden / GetParam();
    if (fs::exists(folder / "tokenizer.model")) return read_sentencepiece(folder);
    if (fs::exists(folder / "vocab.txt"))
      return read_bert_tokenizer(folder / "vocab.txt", {GetParam() == "bert_lowercase", special});
    HfOptions options;
    options.add_special_tokens = special;
    return read_hf_tokenizer(folder, options);
  }
};

TEST_P(Golden, TokensAndTexts) {
  const auto strings = read_json(kGolden / "strings.json").get<std::vector<std::string>>();
  const Json golden = read_json(kGolden / GetParam() / "golden.json");
  ASSERT_GT(strings.size(), 400u);
  ASSERT_EQ(golden["ids"].size(), strings.size());
  const auto tokenizer = read();
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto expected = golden["ids"][i].get<std::vector<std::int32_t>>();
    ASSERT_EQ(tokenizer->encode(strings[i]), expected) << i << ": " << Json(strings[i]).dump();
    ASSERT_EQ(tokenizer->decode(expected), golden["decoded"][i].get<std::string>())
        << i << ": " << Json(strings[i]).dump();
  }
}

class GoldenWithSpecial : public Golden {};

TEST_P(GoldenWithSpecial, SpecialTokens) {
  const Json golden = read_json(kGolden / GetParam() / "golden.json");
  const auto strings = read_json(kGolden / "strings.json").get<std::vector<std::string>>();
  const auto tokenizer = read(true);
  for (std::size_t i = 0; i < strings.size(); ++i)
    ASSERT_EQ(tokenizer->encode(strings[i]), golden["special"][i].get<std::vector<std::int32_t>>())
        << i << ": " << Json(strings[i]).dump();
}

TEST_P(Golden, TokensAreInTheVocabulary) {
  const auto tokenizer = read();
  const Json golden = read_json(kGolden / GetParam() / "golden.json");
  for (const Json& ids : golden["ids"])
    for (const Json& id : ids) ASSERT_LT(id.get<std::int64_t>(), tokenizer->vocab_size());
  EXPECT_THROW(tokenizer->decode(std::vector{static_cast<std::int32_t>(tokenizer->vocab_size())}),
               InputError);
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(kGolden))
    if (entry.is_directory()) found.push_back(entry.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> names_with_special() {
  std::vector<std::string> found = names();
  std::erase_if(found, [](const std::string& name) {
    return read_json(kGolden / name / "golden.json")["special"].empty();
  });
  return found;
}

INSTANTIATE_TEST_SUITE_P(Some, GoldenWithSpecial, testing::ValuesIn(names_with_special()),
                         [](const auto& each) { return each.param; });
INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(names()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace tessera
