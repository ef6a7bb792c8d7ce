// GPT-2's and tiktoken's files. tools/check_tokenizers.py made data/ with the originals.
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/tokenizer/bpe/byte_alphabet.h"
#include "tessera/tokenizer/bpe/byte_bpe_tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

const std::string kData = std::string(TESSERA_SOURCE_DIR) + "/tests/tokenizer/data/";

TokenizerOptions gpt2(const std::string& vocab, const std::string& merges) {
  TokenizerOptions options;
  options.kind = TokenizerKind::gpt2;
  options.vocab_file = vocab;
  options.merge_file = merges;
  return options;
}

TokenizerOptions tiktoken(const std::string& file, TiktokenPattern pattern) {
  TokenizerOptions options;
  options.kind = TokenizerKind::tiktoken;
  options.model = file;
  options.tiktoken_pattern = pattern;
  return options;
}

TEST(ByteBpeFiles, TokensAreThoseOfTheOriginals) {
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  tokenizers["gpt2"] = make_tokenizer(gpt2(kData + "vocab.json", kData + "merges.txt"));
  using enum TiktokenPattern;
  const std::pair<const char*, TiktokenPattern> patterns[] = {{"v1", v1},
                                                              {"v2", v2},
                                                              {"gpt2", TiktokenPattern::gpt2},
                                                              {"cl100k", cl100k},
                                                              {"o200k", o200k}};
  for (const auto& [name, pattern] : patterns)
    tokenizers[std::string("tiktoken-") + name] =
        make_tokenizer(tiktoken(kData + "ranks.tiktoken", pattern));
  std::ifstream lines(kData + "tokens.jsonl");
  int compared = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json entry = Json::parse(line);
    const std::string text = entry["text"];
    for (const auto& [kind, tokens] : entry["tokens"].items()) {
      const auto found = tokenizers.at(kind)->encode(text);
      ASSERT_EQ(found, tokens.get<std::vector<std::int32_t>>()) << kind << ": " << entry["text"];
      ASSERT_EQ(tokenizers.at(kind)->decode(found), text);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 720);
}

TEST(ByteBpeFiles, AnyBytesComeBack) {
  const auto tokenizer = make_tokenizer(gpt2(kData + "vocab.json", kData + "merges.txt"));
  EXPECT_EQ(tokenizer->vocab_size(), 601);
  EXPECT_EQ(tokenizer->eod(), 600);
  std::string text;
  std::uint32_t state = 3;
  for (int i = 0; i < 5000; ++i) {
    state = state * 1664525 + 1013904223;
    text.push_back(static_cast<char>(state >> 24));
  }
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  const std::vector<std::int32_t> outside{5, 601};
  test::expect_input_error([&] { (void)tokenizer->decode(outside); }, {"token 601", "position 1"});
}

TEST(ByteBpeFiles, SpecialTokensAreFoundByTiktokenOnly) {
  const auto named = tiktoken(kData + "ranks.tiktoken", TiktokenPattern::cl100k);
  const auto tokenizer = make_tokenizer(named);
  EXPECT_EQ(tokenizer->vocab_size(), 601);
  EXPECT_EQ(tokenizer->encode("<|endoftext|>"), (std::vector<std::int32_t>{600}));
  const auto gpt = make_tokenizer(gpt2(kData + "vocab.json", kData + "merges.txt"));
  for (const std::int32_t token : gpt->encode("<|endoftext|>")) EXPECT_NE(token, 600);
}

TEST(ByteBpeFiles, FindTokensByTheirTexts) {
  auto named = tiktoken(kData + "ranks.tiktoken", TiktokenPattern::v2);
  named.tiktoken_special_tokens = {"<|endoftext|>", "<fim_prefix>"};
  const auto tokenizer = make_tokenizer(named);
  EXPECT_EQ(tokenizer->find("<fim_prefix>"), 601);
  EXPECT_EQ(tokenizer->find("age"), 597);
  EXPECT_EQ(tokenizer->find("<fim_suffix>"), -1);
  EXPECT_EQ(tokenizer->find(""), -1);
  const auto gpt = make_tokenizer(gpt2(kData + "vocab.json", kData + "merges.txt"));
  EXPECT_EQ(gpt->find("<|endoftext|>"), 600);
}

TEST(ByteBpeFiles, MegatronsListHasSpecialTokensFirst) {
  const test::TempFolder folder;
  Json list = Json::array();
  const std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (unsigned i = 0; i < 256; ++i) {
    const std::string text = {digits[i >> 2], digits[(i & 3) << 4], '=', '='};
    list.push_back({{"rank", i}, {"token_bytes", text}, {"token_str", ""}});
  }
  list.push_back({{"rank", 256}, {"token_bytes", "YWI="}, {"token_str", "ab"}});
  const std::string path = (folder / "vocab.json").string();
  write_file_atomically(path, list.dump());
  TokenizerOptions options = tiktoken(path, TiktokenPattern::v2);
  options.vocab_size = 1257;
  const auto tokenizer = make_tokenizer(options);
  EXPECT_EQ(tokenizer->encode("ab</s>c<SPECIAL_999>"),
            (std::vector<std::int32_t>{1256, 2, 1000 + 'c', 999}));
  EXPECT_EQ(tokenizer->vocab_size(), 1257);
  EXPECT_EQ(tokenizer->eod(), 2);
  options.vocab_size = 1256;
  EXPECT_EQ(make_tokenizer(options)->encode("ab").size(), 2u) << "the list is cut";
  list[5]["rank"] = 6;
  write_file_atomically(path, list.dump());
  test::expect_input_error([&] { make_tokenizer(options); }, {"vocab.json", "entry 5"});
}

TEST(ByteBpeFiles, RefuseWhatTheyCannotRead) {
  const test::TempFolder folder;
  const auto file = [&](const char* name, const std::string& text) {
    write_file_atomically(folder / name, text);
    return (folder / name).string();
  };
  const std::string merges = file("m", "#version: 0.2\na b\n");
  const auto refuse = [&](const std::string& vocab, const std::string& merge,
                          std::initializer_list<const char*> parts) {
    test::expect_input_error([&] { make_tokenizer(gpt2(vocab, merge)); }, parts);
  };
  Json bytes = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    bytes[alphabet_of_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  bytes["<|endoftext|>"] = 256;
  const std::string no_ab = file("v0", bytes.dump());
  bytes["ab"] = 257;
  const std::string good = file("v", bytes.dump());
  EXPECT_EQ(make_tokenizer(gpt2(good, merges))->encode("ab"), (std::vector<std::int32_t>{257}));
  refuse(no_ab, merges, {"'ab' is not in the vocabulary"});
  bytes["b"] = 0;
  refuse("nowhere", merges, {"nowhere"});
  refuse(file("v1", "[1]"), merges, {"v1", "not a vocabulary"});
  refuse(file("v2", "{\"a\":"), merges, {"v2"});
  refuse(file("v3", R"({"a":0,"b":1,"ab":2})"), merges, {"v3", "<|endoftext|>"});
  refuse(file("v4", R"({"a":-1,"<|endoftext|>":3})"), merges, {"v4", "'a'"});
  refuse(file("v7", R"({"a":0,"<|endoftext|>":3})"), merges, {"v7", "the byte 0x00"});
  refuse(file("v5", R"({"a b":0,"<|endoftext|>":3})"), merges, {"v5", "alphabet"});
  refuse(file("v6", bytes.dump()), merges, {"v6", "twice"});
  refuse(good, file("m1", "#version: 0.2\na b c\n"), {"m1:2", "two tokens"});
  refuse(good, file("m2", "a\n"), {"m2:1", "two tokens"});
  refuse(good, file("m4", ""), {"m4' has no merges"});
  refuse(good, file("m5", "#version: 0.2\n"), {"m5' has no merges"});
  refuse(good, file("m3", "b a\n"), {"'ba' is not in the vocabulary"});
  const auto refuse_ranks = [&](const std::string& text, std::initializer_list<const char*> parts) {
    const std::string path = file("r.tiktoken", text);
    test::expect_input_error([&] { make_tokenizer(tiktoken(path, TiktokenPattern::v2)); }, parts);
  };
  refuse_ranks("", {"vocabulary is empty"});
  refuse_ranks("YQ== 0\n", {"byte 0x00"});
  refuse_ranks("YQ==\n", {"r.tiktoken:1"});
  refuse_ranks("YQ== 0\nY? 1\n", {"r.tiktoken:2"});
  refuse_ranks("YQ== 0 \n", {"r.tiktoken:1"});
  refuse_ranks("YQ== 99999999999\n", {"r.tiktoken:1"});
  TokenizerOptions unnamed = tiktoken(kData + "ranks.tiktoken", TiktokenPattern::v2);
  unnamed.tiktoken_special_tokens = {"<x>"};
  test::expect_input_error([&] { make_tokenizer(unnamed); }, {"--tiktoken-special-tokens"});
}

}  // namespace
}  // namespace tessera
