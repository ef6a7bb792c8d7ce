// Numbers of 4 bits with a power of two for each block of 32, and models of gpt-oss that have them.
#include "tessera/checkpoint/format/mxfp4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/safetensors_writer.h"
#include "tessera/checkpoint/hf/hf_folder.h"
#include "tessera/checkpoint/hf/hf_import.h"
#include "tests/checkpoint/made_checkpoint.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

TEST(Mxfp4, KnowsEveryNumber) {
  std::vector<std::uint8_t> blocks(16), scales{127};
  for (std::size_t i = 0; i < 16; ++i)  // column 2 i has number i, and 2 i + 1 number 15 - i
    blocks[i] = static_cast<std::uint8_t>(i | (15 - i) << 4);
  std::vector<float> got(32);
  const auto decode = [&] {
    decode_mxfp4(View(got.data(), DType::f32, {1, 32}),
                 ConstView(blocks.data(), DType::u8, {1, 1, 16}),
                 ConstView(scales.data(), DType::u8, {1, 1}));
  };
  const float numbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (const int power : {0, 3, -2, -127, 127}) {
    scales[0] = static_cast<std::uint8_t>(127 + power);
    decode();
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(got[2 * i], std::ldexp(numbers[i], power)) << i;
      EXPECT_EQ(got[2 * i + 1], std::ldexp(numbers[15 - i], power)) << i;
    }
  }
  scales[0] = 255;
  decode();
  EXPECT_TRUE(std::isnan(got[3]));
}

// A gpt-oss model whose rows have 32 and 64 numbers, with its stacks in MXFP4, and the same in f32.
class Mxfp4Folder : public testing::Test {
 protected:
  static constexpr std::int64_t kExperts = 3, kHidden = 32, kWidth = 64;

  void SetUp() override {
    Json config =
        parse_json(read_text_file(test::family_data("gpt_oss") / "config.json"), "config");
    config["hidden_size"] = kHidden;
    config["intermediate_size"] = kWidth;
    config["num_hidden_layers"] = 1;
    config["layer_types"] = {"sliding_attention"};
    config["dtype"] = "float32";
    plain_ = parse_hf_config(config.dump(), "plain").options;
    write_text(plain_folder_ / "config.json", config.dump());
    config["quantization_config"] = {{"quant_method", "mxfp4"}};
    write_text(packed_folder_ / "config.json", config.dump());
    for (const HfTensor& tensor : hf_tensors(plain_, "gpt_oss")) add(tensor);
    plain_file_.write(plain_folder_ / "model.safetensors");
    packed_file_.write(packed_folder_ / "model.safetensors");
  }

  struct File {
    std::vector<SafetensorsDeclaration> declared;
    std::map<std::string, std::vector<std::byte>> bytes;
    void add(const std::string& name, DType dtype, const Shape& shape, const void* data) {
      declared.push_back({name, dtype, shape});
      const auto size = static_cast<std::size_t>(shape.numel()) * element_size(dtype);
      const auto* from = static_cast<const std::byte*>(data);
      bytes[name] = {from, from + size};
    }
    void write(const fs::path& path) const {
      SafetensorsWriter writer(path, declared);
      for (const SafetensorsDeclaration& each : writer.order())
        writer.append(ConstView(bytes.at(each.name).data(), each.dtype, each.shape));
      writer.close();
    }
  };

  static void write_text(const fs::path& path, const std::string& text) {
    FileWriter file(path);
    file.write(text.data(), text.size());
    file.close();
  }

  void add(const HfTensor& tensor) {
    std::vector<float> values = test::made_values(tensor.name, tensor.shape);
    if (tensor.stack && tensor.shape.rank() == 3) return add_stack(tensor);
    plain_file_.add(tensor.name, DType::f32, tensor.shape, values.data());
    packed_file_.add(tensor.name, DType::f32, tensor.shape, values.data());
  }

  void add_stack(const HfTensor& tensor) {
    const std::int64_t in = tensor.shape[1], out = tensor.shape[2], count = in / 32;
    std::vector<std::uint8_t> blocks, scales;
    for (std::int64_t i = 0; i < kExperts * out * count * 16; ++i)
      blocks.push_back(static_cast<std::uint8_t>(i * 37 + i / 16));
    for (std::int64_t i = 0; i < kExperts * out * count; ++i)
      scales.push_back(static_cast<std::uint8_t>(120 + i % 9));
    std::vector<float> rows(static_cast<std::size_t>(kExperts * out * in)), whole(rows.size());
    decode_mxfp4(View(rows.data(), DType::f32, {kExperts * out, in}),
                 ConstView(blocks.data(), DType::u8, {kExperts * out, count, 16}),
                 ConstView(scales.data(), DType::u8, {kExperts * out, count}));
    for (std::int64_t e = 0; e < kExperts; ++e)
      for (std::int64_t o = 0; o < out; ++o)
        for (std::int64_t i = 0; i < in; ++i)
          whole[static_cast<std::size_t>((e * in + i) * out + o)] =
              rows[static_cast<std::size_t>((e * out + o) * in + i)];
    plain_file_.add(tensor.name, DType::f32, tensor.shape, whole.data());
    packed_file_.add(tensor.name + "_blocks", DType::u8, {kExperts, out, count, 16}, blocks.data());
    packed_file_.add(tensor.name + "_scales", DType::u8, {kExperts, out, count}, scales.data());
  }

  test::TempFolder plain_folder_, packed_folder_;
  File plain_file_, packed_file_;
  ModelOptions plain_;
};

TEST_F(Mxfp4Folder, HoldsTheDecodedNumbers) {
  const HfFolder plain(plain_folder_.path()), packed(packed_folder_.path());
  ASSERT_EQ(plain.names(), packed.names());
  for (const std::string& name : plain.names()) {
    const Shape shape = plain.locate(name).shape;
    std::vector<float> want(static_cast<std::size_t>(shape.numel())), got(want.size());
    plain.read(name, View(want.data(), DType::f32, shape));
    packed.read(name, View(got.data(), DType::f32, shape));
    EXPECT_EQ(got, want) << name;
  }
  EXPECT_EQ(stored_type(packed), DType::f32) << "norms are f32 here";
}

// As ranks read them that share experts and their matrices.
TEST_F(Mxfp4Folder, IsReadInBoxes) {
  const HfFolder plain(plain_folder_.path()), packed(packed_folder_.path());
  for (const std::string part : {"gate", "up", "down"}) {
    const std::string name = "layers.0.mlp.experts." + part + ".weight";
    const Shape offset{1, 5, 7}, extent{2, 20, 23};
    std::vector<float> want(static_cast<std::size_t>(extent.numel())), got(want.size());
    plain.read_box(name, offset, extent, View(want.data(), DType::f32, extent));
    packed.read_box(name, offset, extent, View(got.data(), DType::f32, extent));
    EXPECT_EQ(got, want) << name;
  }
}

TEST_F(Mxfp4Folder, RefusesTensorsThatDoNotFit) {
  const std::string scales = "model.layers.0.mlp.experts.down_proj_scales";
  for (SafetensorsDeclaration& each : packed_file_.declared)
    if (each.name == scales) each.shape = {kExperts, 1, 2 * kHidden};
  fs::remove(packed_folder_ / "model.safetensors");
  packed_file_.write(packed_folder_ / "model.safetensors");
  test::expect_input_error([&] { HfFolder{packed_folder_.path()}; },
                           {scales.c_str(), "[3, 32, 2]"});
  // Packed tensors, and a config.json that does not say so.
  fs::remove(packed_folder_ / "config.json");
  fs::copy(plain_folder_ / "config.json", packed_folder_ / "config.json");
  test::expect_input_error([&] { HfFolder{packed_folder_.path()}; },
                           {"are missing", "gate_up_proj"});
}

}  // namespace
}  // namespace tessera
