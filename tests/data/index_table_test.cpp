#include "tessera/data/indexed/index_table.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/data/index_bytes.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

constexpr std::uint64_t kBinBytes = 12;  // 3 + 1 + 2 tokens of u16
constexpr std::size_t kLengthsAt = 34;
constexpr std::size_t kPointersAt = 34 + 4 * 3;
constexpr std::size_t kDocumentsAt = 34 + 12 * 3;

// Three sequences in two documents: {3, 1} and {2}.
std::vector<std::byte> good() { return test::index_bytes(8, {3, 1, 2}, {0, 6, 8}, {0, 2, 3}); }

void expect_refused(const std::vector<std::byte>& bytes, std::initializer_list<const char*> parts) {
  test::expect_input_error([&] { IndexTable(bytes, kBinBytes, "data.idx"); }, parts);
}

// The good file with one field changed.
template <class T>
std::vector<std::byte> changed(std::size_t at, T value) {
  std::vector<std::byte> bytes = good();
  test::overwrite(bytes, at, value);
  return bytes;
}

TEST(IndexTable, ReadsAGoodFile) {
  const std::vector<std::byte> bytes = good();
  const IndexTable table(bytes, kBinBytes, "data.idx");
  EXPECT_EQ(table.type(), TokenType::u16);
  EXPECT_EQ(table.sequences(), 3);
  EXPECT_EQ(table.documents(), 2);
  EXPECT_EQ(table.length(0), 3);
  EXPECT_EQ(table.length(2), 2);
  EXPECT_EQ(table.start(1), 6);
  EXPECT_EQ(table.document_start(1), 2);
  EXPECT_EQ(table.document_start(2), 3);
}

TEST(IndexTable, ReadsEmptyFilesAndZeroModes) {
  const std::vector<std::byte> empty = test::index_bytes(4, {}, {}, {0});
  EXPECT_EQ(IndexTable(empty, 0, "data.idx").sequences(), 0);
  EXPECT_EQ(IndexTable(empty, 0, "data.idx").documents(), 0);
  std::vector<std::byte> text = good();
  text.resize(text.size() + 3);
  EXPECT_EQ(IndexTable(text, kBinBytes, "data.idx").sequences(), 3);
  text.back() = std::byte{1};
  expect_refused(text, {"data.idx", "mode of sequence 2", "byte 96"});
}

TEST(IndexTable, RefusesEveryTruncationAndExtension) {
  const std::vector<std::byte> whole = good();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A heap copy of just these bytes, so that a read beyond them is seen by the sanitizer.
    const std::vector<std::byte> part(whole.begin(),
                                      whole.begin() + static_cast<std::ptrdiff_t>(size));
    expect_refused(part, {"data.idx"});
  }
  for (const std::size_t more : {1, 2, 4, 8, 1000}) {
    std::vector<std::byte> longer = whole;
    longer.resize(whole.size() + more);
    expect_refused(longer, {"data.idx", "cut off or damaged"});
  }
}

TEST(IndexTable, RefusesBadHeaderFields) {
  for (std::size_t i = 0; i < 9; ++i) expect_refused(changed(i, 'x'), {"data.idx", "byte 0"});
  expect_refused(changed(9, std::uint64_t{2}), {"version", "byte 9", "is 2", "expected 1"});
  expect_refused(changed(16, 'x'), {"version", "byte 9"});
  for (const int code : {0, 9, 255})
    expect_refused(changed(17, static_cast<std::uint8_t>(code)),
                   {"token type", "byte 17", "1 to 8"});
}

TEST(IndexTable, RefusesCountsThatOverflow) {
  const std::uint64_t top = std::uint64_t{1} << 63;
  // 2^62 x 12 and 2^61 x 8 are 0 modulo 2^64; 6 is just too many.
  for (const std::uint64_t count : {std::uint64_t{6}, top, top / 2, top / 4, ~std::uint64_t{0}})
    expect_refused(changed(18, count), {"byte 18"});
  for (const std::uint64_t count : {std::uint64_t{4}, top, top / 2, top / 4, ~std::uint64_t{0}})
    expect_refused(changed(26, count), {"byte 26"});
  expect_refused(changed(26, std::uint64_t{0}), {"document count", "byte 26"});
}

TEST(IndexTable, RefusesSequencesOutsideTheBinFile) {
  expect_refused(changed(kLengthsAt, std::int32_t{-1}), {"length of sequence 0", "byte 34"});
  expect_refused(changed(kLengthsAt + 8, std::int32_t{3}),
                 {"pointer of sequence 2", "byte 62", "3 tokens of u16", "12 bytes"});
  expect_refused(changed(kLengthsAt, std::numeric_limits<std::int32_t>::max()), {"sequence 0"});
  expect_refused(changed(kPointersAt + 8, std::int64_t{-1}), {"pointer of sequence 1", "byte 54"});
  expect_refused(changed(kPointersAt + 16, std::int64_t{9}), {"pointer of sequence 2"});
  expect_refused(changed(kPointersAt, std::numeric_limits<std::int64_t>::max()), {"sequence 0"});
  expect_refused(changed(kPointersAt, std::numeric_limits<std::int64_t>::min()), {"sequence 0"});
}

TEST(IndexTable, RefusesPointersIntoAToken) {
  for (const std::int64_t pointer : {std::int64_t{1}, std::int64_t{3}, std::int64_t{5}})
    expect_refused(changed(kPointersAt + 8, pointer),
                   {"pointer of sequence 1", "byte 54", "multiple of the 2 bytes of u16"});
  const std::vector<std::byte> wide = test::index_bytes(6, {1, 1}, {0, 4}, {0, 2});
  test::expect_input_error([&] { IndexTable(wide, 16, "data.idx"); }, {"multiple of the 8 bytes"});
  const std::vector<std::byte> bytes = test::index_bytes(1, {3, 2}, {0, 3}, {0, 2});
  EXPECT_EQ(IndexTable(bytes, 5, "data.idx").start(1), 3) << "a byte has no inside";
}

// Megatron reads these, and so do we.
TEST(IndexTable, KnowsWhatIsOdd) {
  const auto warning = [](const std::vector<std::byte>& bytes,
                          std::uint64_t bin_bytes = kBinBytes) {
    return IndexTable(bytes, bin_bytes, "data.idx").warning();
  };
  const auto has = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "lacks '" << part << "': " << text;
  };
  EXPECT_EQ(warning(good()), "");
  EXPECT_EQ(warning(test::index_bytes(8, {0, 2, 0}, {0, 0, 4}, {0, 3}), 4), "")
      << "empty sequences";
  has(warning(good(), 14), {"data.idx", "sequences have 12 bytes", ".bin file has 14"});
  has(warning(good(), 13), {"sequences have 12 bytes", ".bin file has 13"});
  has(warning(test::index_bytes(8, {}, {}, {0}), 2), {"sequences have 0 bytes", "has 2"});
  // On top of each other, with a hole between them, and in another order.
  has(warning(changed(kPointersAt + 8, std::int64_t{4})),
      {"sequence 1 begins at byte 4", "not at 6"});
  has(warning(changed(kLengthsAt, std::int32_t{2})), {"sequence 1 begins at byte 6", "not at 4"});
  has(warning(changed(kPointersAt, std::int64_t{2})), {"sequence 0 begins at byte 2", "not at 0"});
  has(warning(test::index_bytes(8, {2, 1}, {2, 0}, {0, 2}), 6), {"sequence 0 begins at byte 2"});
}

TEST(IndexTable, RefusesBadDocuments) {
  expect_refused(changed(kDocumentsAt, std::int64_t{1}), {"first document", "byte 70"});
  expect_refused(changed(kDocumentsAt + 8, std::int64_t{-1}), {"document 1", "byte 78", "-1"});
  expect_refused(changed(kDocumentsAt + 8, std::int64_t{4}), {"document 2", "byte 86", "below"});
  expect_refused(changed(kDocumentsAt + 16, std::int64_t{2}), {"last document", "byte 86", "3"});
}

}  // namespace
}  // namespace tessera
