#include "tessera/data/preprocess/preprocess.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tessera/data/indexed/indexed_dataset.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

class Preprocess : public testing::Test {
 protected:
  Preprocess() { options_.output_prefix = (folder_ / "out").string(); }

  // Writes an input file and makes it the only one.
  void input(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    options_.inputs = {(folder_ / name).string()};
  }

  IndexedDataset output(const std::string& key = "text") const {
    return IndexedDataset(options_.output_prefix + "_" + key + "_document");
  }

  static std::vector<std::int32_t> tokens(const IndexedDataset& data, std::int64_t i) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(data.length(i)));
    data.tokens(i, 0, out);
    return out;
  }

  // The run must fail with this message, and leave nothing but the input behind.
  void expect_refused(std::initializer_list<const char*> parts) {
    test::expect_input_error([&] { preprocess(options_); }, parts);
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      EXPECT_EQ(entry.path().filename().string().rfind("out", 0), std::string::npos)
          << "left behind: " << entry.path();
  }

  test::TempFolder folder_;
  PreprocessOptions options_;
};

using Tokens = std::vector<std::int32_t>;

TEST_F(Preprocess, JsonLinesBecomeDocuments) {
  input("a.jsonl", "{\"text\": \"ab\", \"id\": 1}\n\n{\"text\": \"\"}\r\n{\"text\": \"\\u00e9\"}");
  options_.append_eod = true;
  const PreprocessStats stats = preprocess(options_);
  const IndexedDataset data = output();
  EXPECT_EQ(data.table().type(), TokenType::u16);
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.table().documents(), 3);  // the empty one has no sequence and no EOD
  EXPECT_EQ(tokens(data, 0), (Tokens{'a', 'b', 256}));
  EXPECT_EQ(tokens(data, 1), (Tokens{0xc3, 0xa9, 256}));
  EXPECT_EQ(stats.documents, 3);
  EXPECT_EQ(stats.tokens, 6);
  EXPECT_EQ(stats.bytes, static_cast<std::int64_t>(fs::file_size(options_.inputs[0])));
}

TEST_F(Preprocess, EveryKeyGetsItsFilesAndArraysAreSequences) {
  input("a.jsonl", R"({"q": "x", "a": ["one", "", "2"]})");
  options_.json_keys = {"q", "a"};
  options_.append_eod = true;
  EXPECT_EQ(preprocess(options_).documents, 2);
  EXPECT_EQ(tokens(output("q"), 0), (Tokens{'x', 256}));
  const IndexedDataset answers = output("a");
  ASSERT_EQ(answers.size(), 2);
  EXPECT_EQ(answers.table().documents(), 1);
  EXPECT_EQ(tokens(answers, 0), (Tokens{'o', 'n', 'e'}));
  EXPECT_EQ(tokens(answers, 1), (Tokens{'2', 256}));
}

TEST_F(Preprocess, ATextFileIsOneDocument) {
  input("a.txt", "line\n\nline\n");
  input("b.txt", "z");
  options_.inputs = {(folder_ / "a.txt").string(), (folder_ / "b.txt").string()};
  preprocess(options_);
  const IndexedDataset data = output();
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.length(0), 11);
  EXPECT_EQ(tokens(data, 1), Tokens{'z'});
}

TEST_F(Preprocess, NullTokensOfALargeVocabularyAreStoredAsI32) {
  input("a.jsonl", R"({"text": "70000 1 2"})");
  options_.tokenizer.kind = TokenizerKind::null;
  options_.tokenizer.vocab_size = 100000;
  options_.append_eod = true;
  preprocess(options_);
  EXPECT_EQ(output().table().type(), TokenType::i32);
  EXPECT_EQ(tokens(output(), 0), (Tokens{70000, 1, 2, 100000}));
}

TEST_F(Preprocess, LinesMayCrossTheReadBuffer) {
  const std::string body(700000, 'y');
  std::string text;
  for (int i = 0; i < 4; ++i) text += "{\"text\": \"" + body + "\"}\n";
  input("a.jsonl", text);
  EXPECT_EQ(preprocess(options_).tokens, 4 * 700000);
  EXPECT_EQ(output().length(3), 700000);
}

TEST_F(Preprocess, MistakesNameFileAndLineAndLeaveNothing) {
  const std::string good = "{\"text\": \"a\"}\n";
  input("a.jsonl", good + good + "{\"text\": \"a\"\n" + good);
  expect_refused({"a.jsonl", "line 3", "not valid JSON"});
  input("a.jsonl", good + "[1]\n");
  expect_refused({"a.jsonl", "line 2", "expected a JSON object", "array"});
  input("a.jsonl", good + "\n{\"body\": \"a\"}\n");
  expect_refused({"a.jsonl", "line 3", "no key 'text'"});
  input("a.jsonl", "{\"text\": 5}");
  expect_refused({"line 1", "key 'text'", "expected a string", "number"});
  input("a.jsonl", "{\"text\": [\"a\", null]}");
  expect_refused({"line 1", "array of strings", "null"});
  input("a.jsonl", "{\"text\": \"\xff\"}");
  expect_refused({"line 1", "not valid JSON"});
  options_.tokenizer.kind = TokenizerKind::null;
  options_.tokenizer.vocab_size = 10;
  input("a.jsonl", "{\"text\": \"1 2\"}\n{\"text\": \"1 two\"}");
  expect_refused({"a.jsonl", "line 2", "'two'", "byte 2"});
}

TEST_F(Preprocess, AnOldPairSurvivesAFailedRun) {
  input("a.jsonl", "{\"text\": \"old\"}\n");
  preprocess(options_);
  input("a.jsonl", "{\"text\": \"new\"}\n{");
  options_.overwrite = true;
  test::expect_input_error([&] { preprocess(options_); }, {"line 2"});
  EXPECT_EQ(tokens(output(), 0), (Tokens{'o', 'l', 'd'}));
}

TEST_F(Preprocess, RefusesOptionsThatCannotWork) {
  expect_refused({"--input"});
  input("a.jsonl", "");
  options_.json_keys = {"a", "a"};
  expect_refused({"'a' twice"});
  options_.json_keys = {"../a"};
  expect_refused({"'../a'"});
  options_.json_keys = {};
  expect_refused({"--json-keys"});
  options_.json_keys = {"a", "b"};
  input("a.txt", "text");
  expect_refused({"a.txt", "one plain document"});
  options_.json_keys = {"text"};
  options_.inputs = {(folder_ / "b.txt").string()};
  expect_refused({"b.txt", "No such file"});
  options_.inputs = {(folder_ / "none.jsonl").string()};
  expect_refused({"none.jsonl", "No such file"});
  options_.inputs = {folder_.path().string()};
  expect_refused({folder_.path().c_str()});
  options_.output_prefix = (folder_ / "none" / "out").string();
  expect_refused({"none", "does not exist"});
}

}  // namespace
}  // namespace tessera
