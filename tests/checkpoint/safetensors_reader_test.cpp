#include "tessera/checkpoint/format/safetensors_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::as_bytes;
using test::expect_input_error;
using test::safetensors_bytes;

// Parses a file made of this header and so many bytes of data, and drops the result.
void parse_header(const std::string& header, std::size_t data_bytes) {
  const std::string bytes = safetensors_bytes(header, data_bytes);
  SafetensorsFile(as_bytes(bytes), "x.safetensors");
}

void expect_refused_header(const std::string& header, std::size_t data_bytes,
                           std::initializer_list<const char*> parts) {
  SCOPED_TRACE(header);
  expect_input_error([&] { parse_header(header, data_bytes); }, parts);
  expect_input_error([&] { parse_header(header, data_bytes); }, {"'x.safetensors'"});
}

TEST(SafetensorsReader, ReadsEntriesMetadataAndOffsets) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2,3],"data_offsets":[4,10]},)"
      R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}})";
  const std::string bytes = safetensors_bytes(header, 10);
  const SafetensorsFile file(as_bytes(bytes), "x");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_TRUE(file.contains("a"));
  EXPECT_FALSE(file.contains("__metadata__"));
  EXPECT_EQ(file.shape("a"), Shape{});
  EXPECT_EQ(file.entry("b").offset, 8 + header.size() + 4);
  EXPECT_EQ(file.entry("b").dtype, "U8");
  const ConstView b = file.view("b");
  EXPECT_EQ(b.shape(), (Shape{2, 3}));
  EXPECT_EQ(b.data<std::uint8_t>()[5], 9);
  expect_input_error([&] { file.entry("c"); }, {"'x'", "'c'"});
}

TEST(SafetensorsReader, AcceptsWhatTheFormatAllows) {
  parse_header("{}", 0);
  parse_header("  \n{}\t  ", 0);
  parse_header(R"({"e":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
               R"("f":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
               R"("g":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]}})",
               4);
  parse_header(R"({"p":{"dtype":"F4","shape":[6],"data_offsets":[0,3]},)"
               R"("q":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[3,6]}})",
               6);
  parse_header(R"({"\u00e4\n":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1],"note":1}})", 1);
}

TEST(SafetensorsReader, RefusesDamagedLengths) {
  const auto open = [](const std::string& bytes) {
    SafetensorsFile(as_bytes(bytes), "x.safetensors");
  };
  expect_input_error([&] { open(""); }, {"'x.safetensors'", "0 bytes"});
  expect_input_error([&] { open("\1\0\0"); }, {"too few"});
  expect_input_error([&] { open(std::string(8, '\xff') + "{}"); }, {"byte 0", "100000000"});
  expect_input_error([&] { open(std::string("\x00\xe1\xf5\x05\0\0\0\0{}", 10)); },
                     {"ends at byte 10", "cut short"});
  expect_input_error([&] { open(std::string("\x03\0\0\0\0\0\0\0{}", 10)); }, {"ends at byte 10"});
  expect_input_error([&] { open(std::string(8, '\0')); }, {"byte 8", "'{'"});
}

TEST(SafetensorsReader, RefusesDamagedHeaders) {
  expect_refused_header("", 0, {"'{'"});
  expect_refused_header("[]", 0, {"'{'"});
  expect_refused_header("\xef\xbb\xbf{}", 0, {"'{'"});
  expect_refused_header("{\"a\":", 0, {"not valid JSON"});
  expect_refused_header("{}x", 0, {"not valid JSON"});
  expect_refused_header(std::string("{}\0\0", 4), 0, {"zero byte at byte 10"});
  expect_refused_header("{\"\xff\":1}", 0, {"not valid JSON"});
  expect_refused_header(std::string(100, '[') + "]", 0, {"'{'"});
  expect_refused_header("{\"a\":" + std::string(100000, '['), 0, {"nested"});
  expect_refused_header(R"({"__metadata__":[]})", 0, {"__metadata__", "array"});
  expect_refused_header(R"({"__metadata__":{"n":1}})", 0, {"__metadata__", "'n'", "number"});
  expect_refused_header(R"({"__metadata__":{"n":"1","n":"2"}})", 0, {"'n'", "twice"});
  expect_refused_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                        R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                        1, {"'a'", "twice"});
}

TEST(SafetensorsReader, RefusesDamagedEntries) {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  expect_refused_header(R"({"t":3})", 0, {"tensor 't'", "number", "object"});
  expect_refused_header(R"({"t":{}})", 0, {"tensor 't'", "dtype"});
  expect_refused_header(R"({"t":{"dtype":"F32"}})", 0, {"tensor 't'", "no shape"});
  expect_refused_header(R"({"t":{"dtype":"F32","shape":[1]}})", 4,
                        {"tensor 't'", "no data_offsets"});
  expect_refused_header(entry("7", "[1]", "[0,4]"), 4, {"tensor 't'", "dtype is number"});
  expect_refused_header(entry("\"F31\"", "[1]", "[0,4]"), 4, {"tensor 't'", "'F31'"});
  expect_refused_header(entry("\"F32\"", "4", "[0,4]"), 4, {"tensor 't'", "shape is number"});
  expect_refused_header(entry("\"F32\"", "[-1]", "[0,4]"), 4, {"tensor 't'", "shape", "-1"});
  expect_refused_header(entry("\"F32\"", "[1.0]", "[0,4]"), 4, {"tensor 't'", "shape", "1.0"});
  expect_refused_header(entry("\"F32\"", "[\"1\"]", "[0,4]"), 4, {"tensor 't'", "shape"});
  expect_refused_header(entry("\"F32\"", "[1]", "{}"), 4, {"tensor 't'", "data_offsets is object"});
  expect_refused_header(entry("\"F32\"", "[1]", "[0]"), 4,
                        {"tensor 't'", "1 numbers instead of 2"});
  expect_refused_header(entry("\"F32\"", "[1]", "[0,2,4]"), 4, {"tensor 't'", "3 numbers"});
  expect_refused_header(entry("\"F32\"", "[1]", "[0,4.0]"), 4,
                        {"tensor 't'", "data_offsets", "4.0"});
  expect_refused_header(entry("\"F32\"", "[1]", "[4,0]"), 4, {"tensor 't'", "[4, 0]"});
  expect_refused_header(entry("\"F32\"", "[1]", "[0,3]"), 3,
                        {"tensor 't'", "hold 3 bytes", "needs 4"});
  expect_refused_header(entry("\"F4\"", "[3]", "[0,2]"), 2, {"tensor 't'", "12 bits"});
  expect_refused_header(entry("\"F32\"", "[1]", "[0,18446744073709551615]"), 4,
                        {"tensor 't'", "18446744073709551615", "4 bytes of data"});
  expect_refused_header(entry("\"F32\"", "[1]", "[18446744073709551612,18446744073709551615]"), 4,
                        {"tensor 't'", "cut short"});
  expect_refused_header(entry("\"F32\"", "[1]", "[0,18446744073709551616]"), 4, {"tensor 't'"});
}

TEST(SafetensorsReader, RefusesOverflowingShapes) {
  const auto shape = [](const std::string& dims) {
    return R"({"t":{"dtype":"F64","shape":)" + dims + R"(,"data_offsets":[0,0]}})";
  };
  expect_refused_header(shape("[18446744073709551615]"), 0, {"tensor 't'", "2^56", "dimension 0"});
  expect_refused_header(shape("[18446744073709551616]"), 0, {"tensor 't'", "shape"});
  expect_refused_header(shape("[4294967296,4294967296]"), 0, {"tensor 't'", "dimension 1"});
  expect_refused_header(shape("[4294967296,2147483648,2]"), 0, {"tensor 't'", "2^56"});
  expect_refused_header(shape("[0,9223372036854775807,3]"), 0, {"tensor 't'", "dimension 1"});
  expect_refused_header(shape("[2305843009213693952]"), 0, {"tensor 't'", "2^56"});
}

TEST(SafetensorsReader, RefusesHolesOverlapsAndTrailingBytes) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  parse_header(two("[0,4]", "[4,8]"), 8);
  parse_header(two("[4,8]", "[0,4]"), 8);
  const std::string at = std::to_string(8 + two("[0,4]", "[4,8]").size() + 4);
  expect_refused_header(two("[0,4]", "[5,9]"), 9, {"tensor 'b'", "a hole", at.c_str()});
  expect_refused_header(two("[0,4]", "[3,7]"), 7, {"tensor 'b'", "an overlap", at.c_str()});
  expect_refused_header(two("[0,4]", "[0,4]"), 4, {"tensor 'b'", "an overlap"});
  expect_refused_header(two("[1,5]", "[5,9]"), 9, {"tensor 'a'", "a hole"});
  expect_refused_header(two("[0,4]", "[4,8]"), 9, {"1 bytes belong to no tensor"});
  expect_refused_header(two("[0,4]", "[4,8]"), 7, {"tensor 'b'", "7 bytes of data"});
  expect_refused_header("{}", 1, {"1 bytes belong to no tensor"});
}

TEST(SafetensorsReader, RefusesAFileCutAtAnyByte) {
  const std::string whole = safetensors_bytes(
      R"({"__metadata__":{"a":"b"},"t":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}} )", 24);
  SafetensorsFile(as_bytes(whole), "x.safetensors");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A copy of its own, so that a read beyond the end is seen by the address sanitizer.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    expect_input_error(
        [&] { SafetensorsFile(std::as_bytes(std::span(cut.data(), size)), "x.safetensors"); },
        {"'x.safetensors'"});
  }
}

TEST(SafetensorsReader, RefusesWhatCannotBeComputedWithOnlyWhenAsked) {
  const std::string bytes =
      safetensors_bytes(R"({"f8":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                        R"("deep":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[2,3]},)"
                        R"("n":{"dtype":"U8","shape":[5],"data_offsets":[3,8]}})",
                        8);
  const SafetensorsFile file(as_bytes(bytes), "x");
  EXPECT_EQ(file.entry("f8").data.size(), 2u);
  EXPECT_EQ(file.entry("deep").shape.size(), 7u);
  float x[5] = {};
  expect_input_error([&] { file.view("f8"); }, {"'f8'", "F8_E4M3", "at byte"});
  expect_input_error([&] { file.read("f8", View(x, DType::f32, {2})); }, {"'f8'", "F8_E4M3"});
  expect_input_error([&] { file.view("deep"); }, {"'deep'", "7 dimensions"});
  expect_input_error([&] { file.read("n", View(x, DType::f32, {5})); }, {"'n'", "U8", "f32"});
  expect_input_error([&] { file.read("n", View(x, DType::u8, {4})); }, {"'n'", "[4]", "[5]"});
  expect_input_error([&] { file.read("none", View(x, DType::u8, {4})); }, {"'none'"});
}

TEST(SafetensorsReader, ReadsUnalignedTensors) {
  // One byte in front of four floats, at an odd distance from the file's start.
  std::string header = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("f":{"dtype":"BF16","shape":[2,2],"data_offsets":[1,9]}})";
  header.append((16 - header.size() % 16) % 16, ' ');
  std::string bytes = safetensors_bytes(header, 9);
  const float values[4] = {1.0f, -2.0f, 0.5f, 96.0f};
  for (std::size_t i = 0; i < 4; ++i) {
    const BFloat16 value(values[i]);
    std::memcpy(bytes.data() + bytes.size() - 8 + 2 * i, &value, 2);
  }
  const SafetensorsFile file(as_bytes(bytes), "x");
  expect_input_error([&] { file.view("f"); }, {"'f'", "multiple of 2 bytes"});
  float whole[4] = {};
  file.read("f", View(whole, DType::f32, {2, 2}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(whole[i], values[i]);
  double column[2] = {};
  file.read_box("f", {0, 1}, {2, 1}, View(column, DType::f64, {2, 1}));
  EXPECT_EQ(column[0], -2.0);
  EXPECT_EQ(column[1], 96.0);
  EXPECT_THROW(file.read_box("f", {1, 1}, {2, 1}, View(column, DType::f64, {2, 1})), Error);
  EXPECT_THROW(file.read_box("f", {1}, {2}, View(column, DType::f64, {2})), Error);
}

TEST(SafetensorsReader, NamesTheFileItCannotOpen) {
  const test::TempFolder folder;
  expect_input_error([&] { SafetensorsFile{folder / "none.safetensors"}; }, {"none.safetensors"});
  expect_input_error([&] { SafetensorsFile{folder.path()}; }, {"not a regular file"});
  test::write_bytes(folder / "empty.safetensors", "");
  expect_input_error([&] { SafetensorsFile{folder / "empty.safetensors"}; },
                     {"empty.safetensors", "0 bytes"});
}

}  // namespace
}  // namespace tessera
