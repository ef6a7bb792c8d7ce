// The output does not depend on threads, on compression, or on how the input is cut into files.
#include "tests/data/preprocess_case.h"

namespace tessera {
namespace {

using test::gzip;
using test::made_up_lines;
using test::zstd;

using PreprocessParallel = test::PreprocessCase;

TEST_F(PreprocessParallel, AnyNumberOfThreadsGivesTheSameBytes) {
  for (unsigned i = 0; i < 3; ++i) add_input(fmt::format("{}.jsonl", i), made_up_lines(2500, i));
  options_.json_keys = {"text", "title"};
  options_.workers = 1;
  const auto serial = outputs_of(options_, "serial");
  ASSERT_EQ(serial.size(), 4u);
  EXPECT_GT(serial.at("_text_document.bin").size(), 2'000'000u);
  for (const int workers : {0, 2, 3, 8}) {
    options_.workers = workers;
    EXPECT_EQ(outputs_of(options_, fmt::format("parallel{}", workers)), serial) << workers;
  }
}

// As Megatron's tool would: one document after the other, by the rules of preprocess.h.
TEST_F(PreprocessParallel, DocumentsKeepTheirOrder) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += fmt::format("{{\"text\": \"{}\"}}\n", i);
  input("a.jsonl", lines);
  options_.workers = 4;
  preprocess(options_);
  const IndexedDataset data(path("out_text_document"));
  ASSERT_EQ(data.size(), 20000);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(data.length(i)));
    data.tokens(i, 0, tokens);
    const std::string text = std::to_string(i);
    std::vector<std::int32_t> expected(text.begin(), text.end());
    expected.push_back(256);
    ASSERT_EQ(tokens, expected) << i;
  }
}

TEST_F(PreprocessParallel, CompressedFilesGiveTheSameBytes) {
  const std::string a = made_up_lines(3000, 1), b = made_up_lines(500, 2), text = "one\n\ntext";
  input("a.jsonl", a);
  add_input("b.jsonl", b);
  add_input("c.txt", text);
  const auto plain = outputs_of(options_, "plain");
  input("a.jsonl.gz", gzip(a));
  add_input("b.jsonl.gz", gzip(b));
  add_input("c.txt.gz", gzip(text));
  EXPECT_EQ(outputs_of(options_, "gz"), plain);
  input("a.jsonl.zst", zstd(a));
  add_input("b.jsonl.zst", zstd(b));
  add_input("c.txt.zst", zstd(text));
  EXPECT_EQ(outputs_of(options_, "zst"), plain);
}

// Parallel compressors write many members, and `cat` joins files: all are one text.
TEST_F(PreprocessParallel, MembersAndFramesFollowEachOther) {
  const std::string text = made_up_lines(2000, 3);
  input("a.jsonl", text);
  const auto plain = outputs_of(options_, "plain");
  std::string members, frames;
  for (std::size_t at = 0; at < text.size(); at += 10007) {
    members += gzip(text.substr(at, 10007));
    frames += zstd(text.substr(at, 10007));
  }
  input("a.jsonl.gz", members + gzip(""));
  EXPECT_EQ(outputs_of(options_, "gz"), plain);
  input("a.jsonl.zst", frames + zstd(""));
  EXPECT_EQ(outputs_of(options_, "zst"), plain);
}

TEST_F(PreprocessParallel, SizesAroundTheBuffersAreRead) {
  // A text whose last bytes fill the buffers exactly is where a reader of streams goes wrong.
  for (const std::size_t size : {65535u, 65536u, 65537u, 131071u, 131072u, 131073u, 262144u}) {
    const std::string text(size, 'x');
    input("a.txt", text);
    const auto plain = outputs_of(options_, fmt::format("plain{}", size));
    input("a.txt.gz", gzip(text));
    EXPECT_EQ(outputs_of(options_, fmt::format("gz{}", size)), plain) << size;
    input("a.txt.zst", zstd(text));
    EXPECT_EQ(outputs_of(options_, fmt::format("zst{}", size)), plain) << size;
    EXPECT_EQ(plain.at("_text_document.bin").size(), 2 * (size + 1));
  }
}

TEST_F(PreprocessParallel, PatternsAreSortedAndTakenInTheirOrder) {
  for (const char* name : {"b", "a", "c10", "c9"})
    test::write_bytes(folder_ / fmt::format("{}.jsonl", name),
                      fmt::format("{{\"text\": \"{}\"}}", name));
  options_.inputs = {path("c*.jsonl"), path("[ab].jsonl")};
  options_.append_eod = false;
  preprocess(options_);
  const std::string bin = read_text_file(path("out_text_document.bin"));
  std::string text;
  for (std::size_t i = 0; i < bin.size(); i += 2) text += bin[i];
  EXPECT_EQ(text, "c10c9ab");
}

TEST_F(PreprocessParallel, ANameWithAStarIsAName) {
  add_input("a*.jsonl", "{\"text\": \"star\"}\n");
  test::write_bytes(folder_ / "ab.jsonl", "{\"text\": \"other\"}\n");
  EXPECT_EQ(preprocess(options_).documents, 1);
}

TEST_F(PreprocessParallel, WindowsTextIsRead) {
  input("a.jsonl", "\xef\xbb\xbf{\"text\": \"a\"}\r\n\r\n{\"text\": \"b\"}\r\n");
  const PreprocessStats stats = preprocess(options_);
  EXPECT_EQ(stats.documents, 2);
  EXPECT_EQ(stats.tokens, 4);
  EXPECT_EQ(stats.bytes, static_cast<std::int64_t>(fs::file_size(path("a.jsonl"))));
}

TEST_F(PreprocessParallel, EmptyFilesAndEmptyDocumentsAreNoMistake) {
  add_input("empty.jsonl", "");
  add_input("blank.jsonl", "\n \n\t\r\n");
  add_input("empty.txt", "");
  add_input("none.jsonl", "{\"text\": \"\"}\n{\"text\": []}\n{\"text\": [\"\", \"\"]}\n");
  const PreprocessStats stats = preprocess(options_);
  EXPECT_EQ(stats.documents, 4);
  EXPECT_EQ(stats.tokens, 0);
  EXPECT_EQ(IndexedDataset(path("out_text_document")).size(), 0);
}

}  // namespace
}  // namespace tessera
