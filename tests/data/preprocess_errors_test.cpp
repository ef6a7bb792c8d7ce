// Inputs that cannot be used: each has its message, with file and line, leaves nothing when it is
// fatal, and is counted when it is skipped.
#include <sys/stat.h>

#include "tessera/base/json.h"
#include "tessera/data/files/input_files.h"
#include "tests/data/preprocess_case.h"

namespace tessera {
namespace {

using test::gzip;
using test::zstd;

class PreprocessErrors : public test::PreprocessCase {
 protected:
  void expect_refused(const std::vector<std::string>& parts) {
    try {
      preprocess(options_);
      ADD_FAILURE() << "expected an error, nothing was thrown";
    } catch (const InputError& error) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
            << "the message lacks '" << part << "': " << error.what();
    }
    EXPECT_TRUE(outputs().empty()) << "left behind: out" << outputs().begin()->first;
  }

  const std::string good_ = "{\"text\": \"a\"}\n";
};

struct BadLine {
  std::string line;
  std::vector<std::string> message;
  std::int64_t limit = 1 << 20;  // of --max-line-size
};

std::string nested(int depth, const char* open, const char* close) {
  std::string text = "{\"text\": \"a\", \"x\": ";
  for (int i = 0; i < depth; ++i) text += open;
  text += "1";
  for (int i = 0; i < depth; ++i) text += close;
  return text + "}";
}

const std::vector<BadLine>& bad_lines() {
  using namespace std::string_literals;
  static const std::vector<BadLine> lines{
      {"{", {"not valid JSON"}},
      {"}", {"not valid JSON"}},
      {"{\"text\": \"a\"", {"not valid JSON"}},
      {"{\"text\": \"a", {"not valid JSON"}},
      {"{\"text\": \"a\"} x", {"not valid JSON"}},
      {"{\"text\": \"a\"}{\"text\": \"a\"}", {"not valid JSON"}},
      {"{\"text\": \"a\",}", {"not valid JSON"}},
      {"{'text': 'a'}", {"not valid JSON"}},
      {"{text: \"a\"}", {"not valid JSON"}},
      {"{\"text\" \"a\"}", {"not valid JSON"}},
      {"{\"text\": \"a\", \"x\": NaN}", {"not valid JSON"}},
      {"{\"text\": \"a\", \"x\": 01}", {"not valid JSON"}},
      {"{\"text\": \"a\", \"x\": 1e999}", {"not valid JSON"}},
      {"{\"text\": \"a\", \"x\": +1}", {"not valid JSON"}},
      {"{\"text\": \"a\", \"x\": tru}", {"not valid JSON"}},
      {"{\"text\": \"tab\there\"}", {"not valid JSON"}},
      {"{\"text\": \"\\x\"}", {"not valid JSON"}},
      {"{\"text\": \"\\u12\"}", {"not valid JSON"}},
      {"{\"text\": \"\\ud800\"}", {"not valid JSON", "surrogate"}},
      {"{\"text\": \"\\udc00\\ud800\"}", {"not valid JSON", "surrogate"}},
      {"{\"text\": \"\xff\"}", {"not valid JSON", "UTF-8"}},
      {"{\"text\": \"\xc3\"}", {"not valid JSON", "UTF-8"}},
      {"{\"text\": \"\xc0\xaf\"}", {"not valid JSON", "UTF-8"}},          // overlong
      {"{\"text\": \"\xed\xa0\x80\"}", {"not valid JSON", "UTF-8"}},      // a surrogate
      {"{\"text\": \"\xf4\x90\x80\x80\"}", {"not valid JSON", "UTF-8"}},  // beyond U+10FFFF
      {"{\"te\xffxt\": \"a\"}", {"not valid JSON", "UTF-8"}},
      {"{\"text\": \"a\0b\"}"s, {"a zero byte at byte 11"}},
      {"{\"text\": \"a\"}\0"s, {"a zero byte at byte 13"}},
      {"\0\0\0\0"s, {"a zero byte at byte 0"}},
      {"[]", {"expected a JSON object on each line, got array"}},
      {"[{\"text\": \"a\"}]", {"expected a JSON object on each line, got array"}},
      {"\"text\"", {"expected a JSON object on each line, got string"}},
      {"5", {"expected a JSON object on each line, got number"}},
      {"null", {"expected a JSON object on each line, got null"}},
      {"true", {"expected a JSON object on each line, got boolean"}},
      {"{}", {"no key 'text'"}},
      {"{\"Text\": \"a\"}", {"no key 'text'"}},
      {"{\"x\": {\"text\": \"a\"}}", {"no key 'text'"}},
      {"{\"text\": null}", {"key 'text'", "string or an array of strings, got null"}},
      {"{\"text\": 5}", {"key 'text'", "string or an array of strings, got number"}},
      {"{\"text\": true}", {"key 'text'", "string or an array of strings, got boolean"}},
      {"{\"text\": {\"a\": 1}}", {"key 'text'", "string or an array of strings, got object"}},
      {"{\"text\": [\"a\", 5]}", {"key 'text'", "array of strings, it holds number"}},
      {"{\"text\": [\"a\", [\"b\"]]}", {"key 'text'", "array of strings, it holds array"}},
      {"{\"text\": [null]}", {"key 'text'", "array of strings, it holds null"}},
      {"{\"text\": \"a\", \"text\": \"b\"}", {"key 'text' occurs twice"}},
      {"{\"text\": \"a\", \"x\": 1, \"x\": 2}", {"key 'x' occurs twice"}},
      {"{\"text\": \"a\", \"x\": {\"y\": 1, \"y\": 2}}", {"key 'y' occurs twice"}},
      {"{\"text\": \"a\", \"\\u0074ext\": \"b\"}", {"key 'text' occurs twice"}},
      {nested(64, "[", "]"), {"nested deeper than 64"}},
      {nested(100000, "[", "]"), {"nested deeper than 64"}},
      {nested(70, "{\"k\": ", "}"), {"nested deeper than 64"}},
      {"{\"text\": \"" + std::string(5000, 'x') + "\"}",
       {"more than 4096 bytes", "--max-line-size"},
       4096},
      {std::string(1 << 20, '['), {"more than 4096 bytes"}, 4096},
  };
  return lines;
}

TEST_F(PreprocessErrors, EveryBadLineHasItsMessage) {
  for (const BadLine& bad : bad_lines()) {
    SCOPED_TRACE(bad.line.substr(0, 80));
    options_.max_line_bytes = bad.limit;
    input("a.jsonl", good_ + "\n" + bad.line + "\n" + good_);
    expect_refused(bad.message);
    expect_refused({"a.jsonl' line 3"});
    input("a.jsonl", good_ + good_ + bad.line);  // without a line end
    expect_refused({"a.jsonl' line 3"});
  }
}

TEST_F(PreprocessErrors, EveryBadLineCanBeSkipped) {
  std::string all;
  for (const BadLine& bad : bad_lines()) all += good_ + bad.line + "\r\n" + good_;
  input("a.jsonl", all);
  options_.max_line_bytes = 4096;
  options_.on_error = OnError::skip;
  options_.save_errors = true;
  const PreprocessStats stats = preprocess(options_);
  const auto count = static_cast<std::int64_t>(bad_lines().size());
  EXPECT_GE(count, 40);
  EXPECT_EQ(stats.skipped, count);
  EXPECT_EQ(stats.documents, 2 * count);
  EXPECT_EQ(stats.tokens, 4 * count);
  std::ifstream errors(path("out.errors.jsonl"));
  std::int64_t n = 0;
  for (std::string line; std::getline(errors, line); ++n) {
    const Json entry = parse_json(line, "errors");
    EXPECT_EQ(entry["file"], path("a.jsonl"));
    EXPECT_EQ(entry["line"], 3 * n + 2);
    EXPECT_NE(entry["error"].get<std::string>().find(fmt::format("line {}", 3 * n + 2)),
              std::string::npos);
  }
  EXPECT_EQ(n, count);
}

TEST_F(PreprocessErrors, NothingButBadLinesIsNoSuccess) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "{\"body\": \"a\"}\n";
  input("a.jsonl", text);
  options_.on_error = OnError::skip;
  options_.save_errors = true;
  for (const std::int64_t commit_bytes : {std::int64_t{1} << 28, std::int64_t{100000}}) {
    options_.commit_bytes = commit_bytes;
    expect_refused(
        {"all 20000 documents are bad", "a.jsonl' line 1: the object has no key 'text'"});
  }
  add_input("b.jsonl", good_);
  EXPECT_EQ(preprocess(options_).documents, 1);
}

// A document that is bad in one key is left out of all.
TEST_F(PreprocessErrors, SkippedLinesLeaveNothingInAnyKey) {
  input("a.jsonl", R"({"q": "1", "a": "1"})"
                   "\n"
                   R"({"q": ["2", "2"], "a": 2})"
                   "\n"
                   R"({"q": "3", "a": "3"})");
  options_.json_keys = {"q", "a"};
  options_.on_error = OnError::skip;
  const PreprocessStats stats = preprocess(options_);
  EXPECT_EQ(stats.skipped, 1);
  EXPECT_EQ(stats.documents, 4);
  for (const char* key : {"q", "a"}) {
    const IndexedDataset data(path(fmt::format("out_{}_document", key)));
    ASSERT_EQ(data.size(), 2);
    std::vector<std::int32_t> tokens(2);
    data.tokens(1, 0, tokens);
    EXPECT_EQ(tokens[0], '3');
  }
}

// The first mistake in the order of the input is named, however many threads find one.
TEST_F(PreprocessErrors, TheFirstMistakeIsNamedForAnyNumberOfThreads) {
  std::string text;
  for (int i = 0; i < 30000; ++i) text += good_;
  input("a.jsonl", text + "{first\n" + text + "{second\n" + text);
  for (const int workers : {1, 2, 7}) {
    options_.workers = workers;
    expect_refused({"line 30001", "not valid JSON"});
  }
}

TEST_F(PreprocessErrors, DamagedGzip) {
  const std::string text = test::made_up_lines(200, 5), bytes = gzip(text);
  options_.on_error = OnError::skip;  // which does not excuse damage
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{9}, bytes.size() / 2,
                                 bytes.size() - 8, bytes.size() - 1}) {
    input("a.jsonl.gz", bytes.substr(0, size));
    expect_refused({"a.jsonl.gz' is cut off", fmt::format("at byte {}", size)});
  }
  input("a.jsonl.gz", text);
  expect_refused({"a.jsonl.gz' is damaged, or not gzip, at byte"});
  input("a.jsonl.gz", zstd(text));
  expect_refused({"not gzip, at byte"});
  std::string flipped = bytes;
  flipped[bytes.size() / 2] = static_cast<char>(flipped[bytes.size() / 2] ^ 0x10);
  input("a.jsonl.gz", flipped);
  expect_refused({"a.jsonl.gz"});
  flipped = bytes;
  flipped[bytes.size() - 6] ^= 1;  // the checksum
  input("a.jsonl.gz", flipped);
  expect_refused({"a.jsonl.gz' is damaged", "incorrect data check"});
  input("a.jsonl.gz", bytes + "rubbish at the end");
  expect_refused({"a.jsonl.gz' is damaged", "incorrect header check"});
}

TEST_F(PreprocessErrors, DamagedZstd) {
  const std::string text = test::made_up_lines(200, 5), bytes = zstd(text);
  options_.on_error = OnError::skip;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{9}, bytes.size() / 2, bytes.size() - 1}) {
    input("a.jsonl.zst", bytes.substr(0, size));
    expect_refused({"a.jsonl.zst' is cut off", fmt::format("at byte {}", size)});
  }
  input("a.jsonl.zst", text);
  expect_refused({"a.jsonl.zst' is damaged, or not zstd, at byte 0"});
  std::string flipped = bytes;
  flipped[bytes.size() - 2] ^= 1;  // the checksum
  input("a.jsonl.zst", flipped);
  expect_refused({"a.jsonl.zst' is damaged"});
  input("a.jsonl.zst", bytes + "rubbish at the end");
  expect_refused({"a.jsonl.zst' is damaged", "not zstd"});
}

// A frame header that asks for 2^(10 + exponent) bytes, and an empty last block.
std::string zstd_with_window(int exponent) {
  return std::string("\x28\xb5\x2f\xfd\0", 5) + static_cast<char>(exponent << 3) +
         std::string("\x01\0\0", 3);
}

TEST_F(PreprocessErrors, AZstdWindowThatIsTooLarge) {
  input("a.jsonl.zst", zstd_with_window(19));
  expect_refused({"a.jsonl.zst' needs a zstd window of more than 128 MiB", "--long=27"});
  input("a.jsonl.zst", zstd_with_window(17));
  EXPECT_EQ(preprocess(options_).documents, 0);
}

TEST_F(PreprocessErrors, FilesUnderAFalseName) {
  options_.on_error = OnError::skip;
  input("a.jsonl", gzip(good_));
  expect_refused({"a.jsonl' is a gzip file", "end in .gz"});
  input("a.jsonl", zstd(good_));
  expect_refused({"a.jsonl' is a zstd file", "end in .zst"});
  input("a.jsonl", std::string("\xff\xfe{\0\"\0", 6));
  expect_refused({"a.jsonl' is UTF-16", "iconv"});
  input("a.jsonl", std::string("\xfe\xff\0{\0\"", 6));
  expect_refused({"a.jsonl' is UTF-16", "iconv"});
  input("a.jsonl", "BZh91AY&SY");
  expect_refused({"a.jsonl' is a bzip2 file"});
  input("a.jsonl", std::string("\xfd\x37zXZ\0", 6));
  expect_refused({"a.jsonl' is an xz file"});
  input("a.parquet", "PAR1");
  expect_refused({"a.parquet' is a Parquet file"});
}

TEST_F(PreprocessErrors, InputsAreNotOverwritten) {
  options_.overwrite = true;
  for (const char* ending : {"_text_document.bin", "_text_document.idx", ".errors.jsonl"}) {
    const std::string name = options_.output_prefix + ending;
    write_file_atomically(name, good_);
    options_.inputs = {name};
    test::expect_input_error([&] { preprocess(options_); },
                             {"is an input, too, and would be lost", ending});
    EXPECT_EQ(read_text_file(name), good_);
    fs::remove(name);
  }
}

TEST_F(PreprocessErrors, NamesThatLeadNowhere) {
  options_.inputs = {path("none.jsonl")};
  expect_refused({"none.jsonl", "No such file"});
  options_.inputs = {path("*.jsonl")};
  expect_refused({"*.jsonl' matches no file"});
  options_.inputs = {path("none/*.jsonl")};
  expect_refused({"none/*.jsonl'"});
  input("a.jsonl", good_);
  options_.inputs = {path("a.jsonl"), path("./a.jsonl")};
  expect_refused({"a.jsonl' twice"});
  options_.inputs = {path("*.jsonl"), path("a.jsonl")};
  expect_refused({"a.jsonl' twice", "*.jsonl"});
  fs::create_symlink("a.jsonl", folder_ / "same.json");
  options_.inputs = {path("a.jsonl"), path("same.json")};
  expect_refused({"same.json' twice", "a.jsonl"});
  options_.inputs = {fs::relative(path("a.jsonl")).string(), path("a.jsonl")};
  expect_refused({"a.jsonl' twice"});
  options_.inputs = {folder_.path().string()};
  expect_refused({"is a folder", "*.jsonl"});
  fs::create_directory(folder_ / "sub.jsonl");
  options_.inputs = {path("*.jsonl")};
  expect_refused({"sub.jsonl' is a folder"});
  ASSERT_EQ(::mkfifo(path("pipe.jsonl").c_str(), 0600), 0);
  options_.inputs = {path("pipe.jsonl")};
  expect_refused({"pipe.jsonl' is not a regular file"});
  options_.inputs = {"/dev/null"};
  expect_refused({"'/dev/null' is not a regular file"});
  fs::create_symlink("nowhere", folder_ / "link.jsonl");
  options_.inputs = {path("link.jsonl")};
  expect_refused({"link.jsonl", "No such file"});
  options_.inputs = {std::string(5000, 'x')};
  expect_refused({"File name too long"});
}

TEST_F(PreprocessErrors, AnInputThatChangesIsNoticed) {
  input("a.jsonl", good_);
  const InputFile file = find_input_files(options_.inputs).front();
  EXPECT_NO_THROW(check_unchanged(file));
  const auto expect_changed = [&](const char* how) {
    test::expect_error_of<InputChanged>([&] { check_unchanged(file); },
                                        {"a.jsonl' changed while it was read", how});
  };
  fs::last_write_time(file.path, fs::last_write_time(file.path) + std::chrono::seconds(1));
  expect_changed("it had 14 bytes, has 14, and another time");
  input("a.jsonl", good_ + good_);
  expect_changed("it had 14 bytes, has 28");
  fs::remove(file.path);
  expect_changed("is gone");
}

TEST_F(PreprocessErrors, ATextThatIsTooLong) {
  options_.max_line_bytes = 100;
  input("a.txt.gz", gzip(std::string(101, 'x')));
  expect_refused({"a.txt.gz' has more than 100 bytes"});
  add_input("b.txt", std::string(100, 'x'));
  options_.on_error = OnError::skip;
  const PreprocessStats stats = preprocess(options_);
  EXPECT_EQ(stats.skipped, 1);
  EXPECT_EQ(stats.tokens, 101);
}

TEST_F(PreprocessErrors, WhatTheTokenizerRefuses) {
  options_.tokenizer.kind = TokenizerKind::null;
  options_.tokenizer.vocab_size = 10;
  input("a.jsonl", "{\"text\": \"1 2\"}\n{\"text\": \"1 ten\"}");
  expect_refused({"a.jsonl' line 2, key 'text': 'ten' at byte 2"});
  input("a.txt", "1 2 11");
  expect_refused({"a.txt': '11' at byte 4"});
  options_.on_error = OnError::skip;
  add_input("b.txt", "1 2 9");
  EXPECT_EQ(preprocess(options_).skipped, 1);
}

}  // namespace
}  // namespace tessera
