#include "tessera/checkpoint/format/safetensors_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/safetensors_reader.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

TEST(SafetensorsWriter, RoundTripsEveryType) {
  const test::TempFolder folder;
  std::vector<std::uint64_t> bits(12);
  std::iota(bits.begin(), bits.end(), 0x0102030405060708u);
  std::vector<NamedView> tensors;
  for (const DType type :
       {DType::u8, DType::f16, DType::bf16, DType::i32, DType::f32, DType::i64, DType::f64})
    tensors.push_back(
        {std::string("t.") + std::string(to_string(type)), ConstView(bits.data(), type, {3, 4})});
  tensors.push_back({"scalar \"\xc3\xa4\"", ConstView(bits.data(), DType::f32, {})});
  tensors.push_back({"empty", ConstView(bits.data(), DType::f64, {0, 5})});
  write_safetensors(folder / "x.safetensors", tensors, {{"step", "7"}});

  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.names().size(), tensors.size());
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"step", "7"}}));
  for (const NamedView& tensor : tensors) {
    const ConstView got = file.view(tensor.name);
    EXPECT_EQ(got.dtype(), tensor.view.dtype());
    EXPECT_EQ(got.shape(), tensor.view.shape());
    EXPECT_EQ(std::memcmp(got.raw(), tensor.view.raw(), got.bytes()), 0) << tensor.name;
  }
}

TEST(SafetensorsWriter, OrdersBySizeThenNameAndAlignsTheData) {
  const test::TempFolder folder;
  const double x = 0.0;
  const std::vector<NamedView> tensors{{"b", ConstView(&x, DType::u8, {1})},
                                       {"d", ConstView(&x, DType::f32, {1})},
                                       {"a", ConstView(&x, DType::u8, {3})},
                                       {"c", ConstView(&x, DType::i32, {1})},
                                       {"z", ConstView(&x, DType::f64, {1})}};
  write_safetensors(folder / "x", tensors);
  const SafetensorsFile file(folder / "x");
  const std::size_t start = file.entry("z").offset;
  EXPECT_EQ(start % 64, 0u);
  EXPECT_EQ(file.entry("c").offset, start + 8);
  EXPECT_EQ(file.entry("d").offset, start + 12);
  EXPECT_EQ(file.entry("a").offset, start + 16);
  EXPECT_EQ(file.entry("b").offset, start + 19);
}

TEST(SafetensorsWriter, GathersStridedViews) {
  const test::TempFolder folder;
  // 3 x 300000 floats transposed (rows smaller than the buffer), and cut columns of rows that are
  // larger than the buffer.
  std::vector<float> data(900'000);
  std::iota(data.begin(), data.end(), 0.0f);
  const ConstView transposed(data.data(), DType::f32, {300'000, 3}, {1, 300'000});
  const ConstView cut = ConstView(data.data(), DType::f32, {1, 3, 300'000}).slice(2, 1, 290'000);
  write_safetensors(folder / "x", std::vector<NamedView>{{"t", transposed}, {"c", cut}});
  const SafetensorsFile file(folder / "x");
  const float* t = file.view("t").data<float>();
  const float* c = file.view("c").data<float>();
  for (std::int64_t i = 0; i < 300'000; ++i)
    for (std::int64_t j = 0; j < 3; ++j)
      ASSERT_EQ(t[i * 3 + j], static_cast<float>(j * 300'000 + i));
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 290'000; ++j)
      ASSERT_EQ(c[i * 290'000 + j], static_cast<float>(i * 300'000 + j + 1));
}

TEST(SafetensorsWriter, RefusesWhatWasNotDeclared) {
  const test::TempFolder folder;
  const double x[4] = {};
  const std::vector<SafetensorsDeclaration> two{{"a", DType::f64, {2}}, {"b", DType::f64, {2}}};
  SafetensorsWriter writer(folder / "x", two);
  EXPECT_THROW(writer.close(), Error);
  EXPECT_THROW(SafetensorsWriter(folder / "x", {two[0], two[0]}), Error);
  EXPECT_THROW(SafetensorsWriter(folder / "x", {{"__metadata__", DType::u8, {1}}}), Error);
  SafetensorsWriter other(folder / "y", two);
  EXPECT_THROW(other.append(ConstView(x, DType::f64, {3})), Error);
  SafetensorsWriter third(folder / "z", two);
  third.append(ConstView(x, DType::f64, {2}));
  EXPECT_THROW(third.append(ConstView(x, DType::f32, {2})), Error);
  SafetensorsWriter fourth(folder / "w", {two[0]});
  fourth.append(ConstView(x, DType::f64, {2}));
  EXPECT_THROW(fourth.append(ConstView(x, DType::f64, {2})), Error);
}

}  // namespace
}  // namespace tessera
