#include "tessera/data/indexed/indexed_dataset.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/data/indexed/indexed_dataset_writer.h"
#include "tests/data/index_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using Tokens = std::vector<std::int32_t>;
using Bytes = std::vector<std::byte>;

Tokens read(const IndexedDataset& data, std::int64_t i) {
  Tokens tokens(static_cast<std::size_t>(data.length(i)));
  data.tokens(i, 0, tokens);
  return tokens;
}

Bytes file_bytes(const fs::path& path) {
  const std::string text = read_text_file(path);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// Documents: {5, 6, 7}, {}, {8, 65499} in two sequences.
void write_sample(const std::string& prefix, TokenType type) {
  IndexedDatasetWriter writer(prefix, type);
  writer.add_document(Tokens{5, 6, 7});
  writer.add_document(Tokens{});
  writer.add_sequence(Tokens{8});
  writer.add_sequence(Tokens{65499});
  writer.end_document();
  EXPECT_EQ(writer.documents(), 3);
  EXPECT_EQ(writer.tokens(), 5);
  writer.finish();
}

TEST(IndexedDatasetWriter, WritesMegatronsBytes) {
  const test::TempFolder folder;
  const std::string prefix = (folder / "data").string();
  write_sample(prefix, TokenType::u16);
  EXPECT_EQ(file_bytes(prefix + ".bin"),
            test::bytes_of(std::vector<std::uint16_t>{5, 6, 7, 8, 65499}));
  EXPECT_EQ(file_bytes(prefix + ".idx"), test::index_bytes(8, {3, 1, 1}, {0, 6, 8}, {0, 1, 1, 3}));
  write_sample(prefix, TokenType::i32);  // replaces the pair
  EXPECT_EQ(file_bytes(prefix + ".bin"), test::bytes_of(Tokens{5, 6, 7, 8, 65499}));
  EXPECT_EQ(file_bytes(prefix + ".idx"),
            test::index_bytes(4, {3, 1, 1}, {0, 12, 16}, {0, 1, 1, 3}));
  EXPECT_EQ(files_in(folder.path()), 2u);
}

TEST(IndexedDatasetWriter, TheTypeFollowsTheVocabulary) {
  EXPECT_EQ(token_type_for_vocab(257), TokenType::u16);
  EXPECT_EQ(token_type_for_vocab(65499), TokenType::u16);
  EXPECT_EQ(token_type_for_vocab(65500), TokenType::i32);
}

TEST(IndexedDatasetWriter, LeavesNothingWhenItIsNotFinished) {
  const test::TempFolder folder;
  const std::string prefix = (folder / "data").string();
  {
    IndexedDatasetWriter writer(prefix, TokenType::u16);
    writer.add_document(Tokens(1 << 20, 7));  // beyond the buffer: on the disk already
    test::expect_input_error(
        [&] {
          writer.add_document(Tokens{1, 65536});
        },
        {"data.tmp.bin", "sequence 1", "65536"});
    test::expect_input_error([&] { writer.add_document(Tokens{-1}); }, {"-1"});
  }
  EXPECT_EQ(files_in(folder.path()), 0u);
  EXPECT_THROW(IndexedDatasetWriter(prefix, TokenType::f32).add_document(Tokens{1}), Error);
  EXPECT_THROW(IndexedDatasetWriter((folder / "none" / "data").string(), TokenType::u16), Error);
}

TEST(IndexedDataset, ReadsWhatWasWritten) {
  const test::TempFolder folder;
  const std::string prefix = (folder / "data").string();
  for (const TokenType type : {TokenType::u16, TokenType::i32}) {
    write_sample(prefix, type);
    const IndexedDataset data(prefix);
    ASSERT_EQ(data.size(), 3);
    EXPECT_EQ(data.table().documents(), 3);
    EXPECT_EQ(read(data, 0), (Tokens{5, 6, 7}));
    EXPECT_EQ(read(data, 1), Tokens{8});
    EXPECT_EQ(read(data, 2), Tokens{65499});
    Tokens middle(2);
    data.tokens(0, 1, middle);
    EXPECT_EQ(middle, (Tokens{6, 7}));
  }
}

TEST(IndexedDataset, LargeFilesPassThroughTheBuffers) {
  const test::TempFolder folder;
  const std::string prefix = (folder / "data").string();
  IndexedDatasetWriter writer(prefix, TokenType::i32);
  Tokens document;
  for (std::int32_t i = 0; i < 1500; ++i) {
    document.assign(static_cast<std::size_t>(i), i);
    writer.add_document(document);
  }
  writer.finish();
  const IndexedDataset data(prefix);
  ASSERT_EQ(data.size(), 1499);  // the empty document has no sequence
  for (std::int32_t i = 1; i < 1500; ++i) {
    document.assign(static_cast<std::size_t>(i), i);
    ASSERT_EQ(read(data, i - 1), document);
  }
}

template <class T>
void expect_reads(std::uint8_t code, const std::vector<T>& values, const Tokens& expected) {
  Bytes memory(1);  // an odd first byte: nothing is aligned
  for (const T& value : values) test::append(memory, value);
  const Bytes idx =
      test::index_bytes(code, {static_cast<std::int32_t>(values.size())}, {0}, {0, 1});
  const auto bin = std::span<const std::byte>(memory).subspan(1);
  EXPECT_EQ(read(IndexedDataset(idx, bin, "x"), 0), expected) << "type " << int{code};
}

TEST(IndexedDataset, ReadsAllEightTypes) {
  expect_reads<std::uint8_t>(1, {0, 200, 255}, {0, 200, 255});
  expect_reads<std::int8_t>(2, {0, 100, -1}, {0, 100, -1});
  expect_reads<std::int16_t>(3, {0, 30000, -2}, {0, 30000, -2});
  expect_reads<std::int32_t>(4, {0, 2147483647, -3}, {0, 2147483647, -3});
  expect_reads<std::int64_t>(5, {0, 2147483647, -2147483648LL}, {0, 2147483647, -2147483647 - 1});
  expect_reads<double>(6, {0.0, 2147483647.0, -5.0}, {0, 2147483647, -5});
  expect_reads<float>(7, {0.0f, 65536.0f, -5.0f}, {0, 65536, -5});
  expect_reads<std::uint16_t>(8, {0, 65535, 1}, {0, 65535, 1});
}

template <class T>
void expect_not_a_token(std::uint8_t code, T value, const char* byte) {
  const Bytes bin = test::bytes_of(std::vector<T>{T{1}, T{2}, value});
  const Bytes idx = test::index_bytes(code, {3}, {0}, {0, 1});
  const IndexedDataset data(idx, bin, "x");
  Tokens tokens(2);
  test::expect_input_error([&] { data.tokens(0, 1, tokens); },
                           {"x.bin", "sequence 0", "position 2", byte});
}

TEST(IndexedDataset, RefusesValuesThatAreNotTokens) {
  expect_not_a_token<std::int64_t>(5, 2147483648LL, "byte 16");
  expect_not_a_token<std::int64_t>(5, -2147483649LL, "i64");
  expect_not_a_token<double>(6, 1.5, "byte 16");
  expect_not_a_token<double>(6, std::numeric_limits<double>::quiet_NaN(), "f64");
  expect_not_a_token<float>(7, 2147483648.0f, "byte 8");
  expect_not_a_token<float>(7, std::numeric_limits<float>::infinity(), "f32");
}

TEST(IndexedDataset, ReadingOutsideASequenceIsAnError) {
  const Bytes bin = test::bytes_of(std::vector<std::uint16_t>{1, 2, 3, 4});
  const Bytes idx = test::index_bytes(8, {3, 1}, {0, 6}, {0, 1, 2});
  const IndexedDataset data(idx, bin, "x");
  Tokens two(2);
  EXPECT_THROW(data.tokens(0, 2, two), Error);
  EXPECT_THROW(data.tokens(0, -1, two), Error);
  EXPECT_THROW(data.tokens(0, std::numeric_limits<std::int64_t>::max(), two), Error);
  EXPECT_THROW(data.tokens(2, 0, two), Error);
  EXPECT_THROW(data.tokens(-1, 0, two), Error);
}

TEST(IndexedDataset, NamesMissingAndMismatchedFiles) {
  const test::TempFolder folder;
  const std::string prefix = (folder / "data").string();
  test::expect_input_error([&] { IndexedDataset data(prefix); }, {"data.idx"});
  write_sample(prefix, TokenType::u16);
  fs::resize_file(prefix + ".bin", 9);
  test::expect_input_error([&] { IndexedDataset data(prefix); },
                           {"data.idx", "pointer of sequence 2", "9 bytes"});
  fs::remove(prefix + ".bin");
  test::expect_input_error([&] { IndexedDataset data(prefix); }, {"data.bin"});
}

}  // namespace
}  // namespace tessera
