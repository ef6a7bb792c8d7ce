#include "tessera/data/preprocess/train_tokenizer.h"

#include <gtest/gtest.h>

#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/data/preprocess/text_chunks.h"
#include "tessera/tokenizer/bpe/train_bpe.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

TEST(LearnBpe, TheMostFrequentPairComesFirst) {
  const LearnedBpe learned = learn_bpe({{"abab", 3}, {"abc", 2}, {"bc", 4}}, {"<s>"}, 1000);
  ASSERT_GE(learned.merges.size(), 2u);
  const auto text = [&](std::size_t i) {
    const auto& [left, right] = learned.merges[i];
    return learned.tokens[left] + "+" + learned.tokens[right];
  };
  EXPECT_EQ(learned.tokens[0], "<s>");
  EXPECT_EQ(learned.tokens[1], "!") << "bytes in the order of the alphabet";
  EXPECT_EQ(text(0), "a+b") << "8 times";
  EXPECT_EQ(text(1), "b+c") << "4 times; ab+c is 2 times, ab+ab 3 times";
  EXPECT_EQ(text(2), "ab+ab");
  EXPECT_EQ(text(3), "ab+c");
  EXPECT_EQ(learned.merges.size(), 4u) << "nothing is left to merge";
  EXPECT_EQ(learned.tokens.size(), 1u + 256 + 4);
}

TEST(LearnBpe, StopsAtTheVocabularyAndCountsOverlaps) {
  const LearnedBpe learned = learn_bpe({{"aaaa", 5}, {"bc", 14}}, {}, 257);
  ASSERT_EQ(learned.merges.size(), 1u);
  EXPECT_EQ(learned.tokens[256], "aa") << "aa is there 3 times in aaaa";
}

class TrainTokenizer : public testing::Test {
 protected:
  TrainTokenizer() {
    std::string text, lines;
    std::uint32_t state = 5;
    for (int i = 0; i < 400'000; ++i) {
      state = state * 1664525 + 1013904223;
      text += "the cat sat on a mat and ran far"[(state >> 10) % 32];
      if (i % 60 == 59) text += "\n";
    }
    write_file_atomically(folder_ / "a.txt", text + text + text);
    write_file_atomically(folder_ / "b.jsonl", "{\"text\": \"the cat\"}\n{\"text\": \"a hat\"}\n");
    options_.inputs = {(folder_ / "a.txt").string(), (folder_ / "*.jsonl").string()};
    options_.output = (folder_ / "tokenizer.json").string();
    options_.vocab_size = 400;
  }

  std::string made() {
    options_.overwrite = true;
    train_tokenizer(options_);
    return read_text_file(options_.output);
  }

  test::TempFolder folder_;
  TrainTokenizerOptions options_;
};

TEST_F(TrainTokenizer, IsTheSameForAnyNumberOfThreads) {
  options_.threads = 1;
  const std::string one = made();
  for (const int threads : {2, 5}) {
    options_.threads = threads;
    EXPECT_EQ(made(), one);
  }
  const Json file = Json::parse(one);
  EXPECT_EQ(file["model"]["vocab"].size(), 400u);
  EXPECT_EQ(file["model"]["vocab"]["<|endoftext|>"], 0);
  EXPECT_EQ(file["model"]["merges"].size(), 400u - 257);
  EXPECT_EQ(file["added_tokens"][0]["special"], true);
}

// tools/check_tokenizers.py made the file with Hugging Face's trainer.
TEST_F(TrainTokenizer, LearnsWhatHuggingFaceLearns) {
  const std::string golden = TESSERA_SOURCE_DIR "/tests/data/golden/trained_tokenizers.json";
  options_.inputs = {(folder_ / "golden.txt").string()};
  options_.vocab_size = 360;
  int compared = 0;
  for (const Json& expected : parse_json(read_text_file(golden), golden)) {
    write_file_atomically(options_.inputs[0], expected["text"].get<std::string>());
    options_.pattern = expected["pattern"] == "gpt2" ? TrainPattern::gpt2 : TrainPattern::llama3;
    const Json model = Json::parse(made())["model"];
    EXPECT_EQ(model["merges"], expected["merges"]) << expected["text"];
    EXPECT_EQ(model["vocab"].size(), 257 + expected["tokens"].size());
    for (std::size_t i = 0; i < expected["tokens"].size(); ++i)
      EXPECT_EQ(model["vocab"][expected["tokens"][i].get<std::string>()], 257 + i);
    ++compared;
  }
  EXPECT_EQ(compared, 6);
}

TEST_F(TrainTokenizer, RefusesWhatItCannotUse) {
  const auto refuse = [&](auto change, std::initializer_list<const char*> parts) {
    TrainTokenizerOptions options = options_;
    change(options);
    test::expect_input_error([&] { train_tokenizer(options); }, parts);
  };
  refuse([](auto& o) { o.vocab_size = 256; }, {"--vocab-size 256 is too small"});
  refuse([](auto& o) { o.special_tokens = {"END"}; }, {"'END' could be a word"});
  refuse([](auto& o) { o.inputs = {"/nowhere/*.txt"}; }, {"/nowhere/*.txt"});
  refuse([](auto& o) { o.inputs = {"/nowhere.txt"}; }, {"/nowhere.txt"});
  refuse([](auto& o) { o.json_keys = {"body"}; }, {"b.jsonl", "line 1", "no key 'body'"});
  write_file_atomically(folder_ / "c.jsonl", "{\"text\": \"x\"}\n{\"text\": 5\n");
  refuse([](auto&) {}, {"c.jsonl", "line 2"});
  write_file_atomically(folder_ / "d.txt", "\x1f\x8b\x08...");
  refuse([&](auto& o) { o.inputs = {(folder_ / "d.txt").string()}; },
         {"d.txt", "a gzip file: let its name end in .gz"});
  write_file_atomically(folder_ / "empty.txt", "");
  refuse([&](auto& o) { o.inputs = {(folder_ / "empty.txt").string()}; }, {"no text"});
  refuse([&](auto& o) { o.output = (folder_ / "none" / "t.json").string(); },
         {"the folder", "of --output does not exist"});
  refuse([&](auto& o) { o.output = folder_.path().string(); }, {"is a folder", "tokenizer.json"});
  refuse([&](auto& o) { o.output = (folder_ / "empty.txt").string(); },
         {"empty.txt' is there already", "--overwrite"});
  refuse(
      [&](auto& o) {
        o.output = o.inputs.front();
        o.overwrite = true;
      },
      {"is an input, too, and would be lost"});
}

TEST_F(TrainTokenizer, ReadsCompressedFilesAsIfTheyWereNot) {
  const std::string plain = made();
  const std::string file = (folder_ / "a.txt").string();
  ASSERT_EQ(std::system(("gzip -k " + file).c_str()), 0);
  options_.inputs[0] += ".gz";
  EXPECT_EQ(made(), plain);
}

std::string text_of_chunks(const std::vector<InputFile>& files, std::size_t chunk_bytes,
                           std::size_t max_line, std::vector<std::int64_t>& lines) {
  TextChunks chunks(files, chunk_bytes, max_line);
  std::string all;
  while (const auto chunk = chunks.next()) {
    lines.push_back(chunk->line);
    all += chunk->text;
  }
  return all;
}

TEST(TextChunks, AreWholeLinesAndAllOfTheText) {
  const test::TempFolder folder;
  write_file_atomically(folder / "a.txt", "\xef\xbb\xbfone\ntwo\nthree");
  write_file_atomically(folder / "b.txt", "");
  write_file_atomically(folder / "c.txt", "a very long line without an end\nand\n");
  const auto files = find_input_files({(folder / "*.txt").string()});
  for (const std::size_t bytes : {1, 4, 7, 100}) {
    std::vector<std::int64_t> lines;
    EXPECT_EQ(text_of_chunks(files, bytes, 64, lines),
              "one\ntwo\nthreea very long line without an end\nand\n");
  }
  std::vector<std::int64_t> lines;
  text_of_chunks(files, 4, 64, lines);
  EXPECT_EQ(lines, (std::vector<std::int64_t>{1, 2, 3, 1, 2}));
}

TEST(TextChunks, LinesThatAreTooLongAreCutAtSpacesOrRefused) {
  const test::TempFolder folder;
  write_file_atomically(folder / "a.txt", "one two three four");
  write_file_atomically(folder / "b.jsonl", "{\"text\": \"one two three four\"}\n");
  const auto text = find_input_files({(folder / "a.txt").string()});
  TextChunks chunks(text, 4, 8);
  EXPECT_EQ(chunks.next()->text, "one two");
  EXPECT_EQ(chunks.next()->text, " three");
  EXPECT_EQ(chunks.next()->text, " four");
  const auto lines = find_input_files({(folder / "b.jsonl").string()});
  TextChunks json(lines, 4, 8);
  test::expect_input_error([&] { json.next(); }, {"b.jsonl", "line 1", "more than 8 bytes"});
}

}  // namespace
}  // namespace tessera
