#include "tessera/tokenizer/tokenizer_files.h"

#include <gtest/gtest.h>

#include "tessera/tokenizer/tokenizer.h"

namespace tessera {
namespace {

const fs::path kGoldenFiles = fs::path(TESSERA_SOURCE_DIR) / "tests/tokenizer/golden";

TokenizerOptions named(TokenizerKind kind, const fs::path& model) {
  TokenizerOptions options;
  options.kind = kind;
  options.model = model.string();
  return options;
}

TEST(TokenizerFiles, AreFoundByFolderAndByFile) {
  const auto paths = [](const TokenizerOptions& options) {
    std::vector<std::string> found;
    for (const TokenizerFile& file : tokenizer_files(options)) {
      EXPECT_TRUE(fs::is_regular_file(file.path)) << file.path;
      found.push_back(file.name);
    }
    return found;
  };
  const auto hf = TokenizerKind::hugging_face, pieces = TokenizerKind::sentencepiece;
  EXPECT_EQ(paths(named(hf, kGoldenFiles / "llama3")).front(), "tokenizer.json");
  EXPECT_EQ(paths(named(hf, kGoldenFiles / "llama3/tokenizer.json")).front(), "tokenizer.json");
  EXPECT_EQ(paths(named(pieces, kGoldenFiles / "sp_bpe")).front(), "tokenizer.model");
  EXPECT_EQ(paths(named(pieces, kGoldenFiles / "sp_bpe/tokenizer.model")).front(),
            "tokenizer.model");
  EXPECT_TRUE(tokenizer_files({}).empty());
}

TEST(TokenizerFiles, TheSameTokenizerIsReadFromAnotherFolder) {
  for (const auto& [kind, name] : {std::pair{TokenizerKind::hugging_face, "llama3"},
                                   std::pair{TokenizerKind::sentencepiece, "sp_bpe"}}) {
    const TokenizerOptions there = named(kind, "/gone/tokenizer");
    const TokenizerOptions here = tokenizer_in(kGoldenFiles / name, there);
    EXPECT_EQ(make_tokenizer(here)->encode("Hello"),
              make_tokenizer(named(kind, kGoldenFiles / name))->encode("Hello"));
  }
}

TEST(TokenizerFiles, BertHasAVocabularyFile) {
  TokenizerOptions options;
  options.kind = TokenizerKind::bert_cased;
  EXPECT_FALSE(options.has_files());
  options = tokenizer_in(kGoldenFiles / "bert_cased", options);
  EXPECT_TRUE(options.has_files());
  ASSERT_EQ(tokenizer_files(options).size(), 1u);
  EXPECT_EQ(tokenizer_files(options)[0].name, "vocab.txt");
  EXPECT_TRUE(fs::is_regular_file(tokenizer_files(options)[0].path));
}

}  // namespace
}  // namespace tessera
