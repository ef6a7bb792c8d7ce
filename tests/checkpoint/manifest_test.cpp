#include "tessera/checkpoint/format/manifest.h"

#include <gtest/gtest.h>

#include "tessera/base/json.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

FileRecord file_of(const std::string& name, std::uint64_t bytes) {
  return {name, bytes, std::vector<Digest>(digest_blocks(bytes), Digest{1, 2})};
}

Manifest small_manifest() {
  Manifest manifest;
  manifest.iteration = 12;
  manifest.state = R"({"iteration":12})";
  manifest.layout = R"({"ranks":2})";
  manifest.files = {file_of("a", 4'194'305), file_of("b", 100)};
  manifest.tensors["x"] = {DType::f32, {4, 2}, {{0, 64, {0, 0}, {3, 2}}, {1, 64, {3, 0}, {1, 2}}}};
  manifest.tensors["empty"] = {DType::bf16, {0}, {}};
  return manifest;
}

TEST(Manifest, ComesBackAsItWas) {
  const Manifest manifest = small_manifest();
  const Manifest back = parse_manifest(manifest_text(manifest), "m");
  EXPECT_EQ(back.iteration, 12);
  EXPECT_EQ(back.state, manifest.state);
  EXPECT_EQ(back.layout, manifest.layout);
  ASSERT_EQ(back.files.size(), 2u);
  EXPECT_EQ(back.files[0].blocks, manifest.files[0].blocks);
  EXPECT_EQ(back.tensors.at("x").slices[1].offset, Shape({3, 0}));
  EXPECT_EQ(manifest_text(back), manifest_text(manifest));
}

TEST(Manifest, IsPutTogetherFromParts) {
  Manifest first;
  first.files = {file_of("a", 100)};
  first.tensors["x"] = {DType::f32, {4, 2}, {{0, 64, {0, 0}, {3, 2}}}};
  Manifest second;
  second.files = {file_of("b", 100)};
  second.tensors["x"] = {DType::f32, {4, 2}, {{0, 64, {3, 0}, {1, 2}}}};
  Manifest whole;
  add_part(whole, part_text(first));
  EXPECT_THROW(manifest_text(whole), Error) << "a hole";
  add_part(whole, part_text(second));
  EXPECT_EQ(whole.tensors.at("x").slices[1].file, 1u);
  EXPECT_NE(manifest_text(whole), "");
  add_part(whole, part_text(second));
  EXPECT_THROW(manifest_text(whole), Error) << "an overlap";
  second.tensors["x"].dtype = DType::f64;
  EXPECT_THROW(add_part(whole, part_text(second)), Error);
}

// With a checksum that fits, so that what it says is what is refused.
std::string signed_text(const Json& json) {
  const std::string body = json.dump().substr(1) + "\n";
  return "{\"digest\":\"" + compute_digest(body).to_string() + "\",\n" + body;
}

TEST(Manifest, NonsenseIsRefused) {
  Json good = parse_json(manifest_text(small_manifest()), "m");
  good.erase("digest");
  EXPECT_NO_THROW(parse_manifest(signed_text(good), "m"));
  const auto refused = [&](const auto& change, std::initializer_list<const char*> parts) {
    Json bad = good;
    change(bad);
    test::expect_input_error([&] { parse_manifest(signed_text(bad), "the file"); }, parts);
  };
  refused([](Json& j) { j["version"] = 2; }, {"the file", "version 2", "newer"});
  refused([](Json& j) { j["format"] = "zip"; }, {"no manifest"});
  refused([](Json& j) { j.erase("iteration"); }, {"iteration", "missing"});
  refused([](Json& j) { j["block_bytes"] = 1; }, {"4194304"});
  refused([](Json& j) { j["state"] = 1; }, {"state", "object"});
  refused([](Json& j) { j["files"][0]["name"] = "../../etc/passwd"; }, {"no name of a file"});
  refused([](Json& j) { j["files"][0]["name"] = "b"; }, {"'b'", "twice"});
  refused([](Json& j) { j["files"][0]["bytes"] = 1; }, {"blocks"});
  refused([](Json& j) { j["files"][0]["blocks"] = "00"; }, {"blocks"});
  refused([](Json& j) { j["files"][0]["digest"] = "00"; }, {"does not follow"});
  refused([](Json& j) { j["tensors"]["x"]["dtype"] = "F9"; }, {"'x'", "F9"});
  refused([](Json& j) { j["tensors"]["x"]["shape"] = {1LL << 40, 1LL << 40}; }, {"2^56"});
  refused([](Json& j) { j["tensors"]["x"]["slices"][0]["file"] = 2; }, {"file 2 of 2"});
  refused([](Json& j) { j["tensors"]["x"]["slices"][1]["at"] = 96; }, {"leaves 'b'"});
  refused([](Json& j) { j["tensors"]["x"]["slices"][1]["offset"] = {4, 0}; }, {"leaves the shape"});
  refused([](Json& j) { j["tensors"]["x"]["slices"][1]["offset"] = {2, 0}; }, {"overlap"});
  refused([](Json& j) { j["tensors"]["x"]["slices"].erase(1); }, {"6 of the 8"});
  refused([](Json& j) { j["tensors"]["x"]["slices"][0]["extent"] = {-1, 2}; }, {"extent"});
}

// Two planes and rows of the planes between them, as ranks have them that share a tensor of three
// dimensions; and the same with slices that overlap in one number only.
TEST(Manifest, SlicesOfThreeDimensionsFillATensor) {
  Manifest manifest;
  manifest.files = {file_of("a", 1000)};
  TensorRecord& tensor = manifest.tensors["x"];
  const std::vector<TensorSlice> good = {
      {0, 0, {0, 0, 0}, {2, 3, 4}}, {0, 0, {2, 0, 0}, {1, 1, 4}}, {0, 0, {2, 1, 0}, {1, 1, 3}},
      {0, 0, {2, 1, 3}, {1, 1, 1}}, {0, 0, {2, 2, 0}, {1, 1, 4}}, {0, 0, {3, 0, 0}, {1, 3, 4}}};
  tensor = {DType::f32, {4, 3, 4}, good};
  EXPECT_NE(manifest_text(manifest), "");
  tensor.slices[3].offset = {2, 1, 2};
  EXPECT_THROW(manifest_text(manifest), InputError);
  tensor.slices = good;
  tensor.slices[3].offset = {1, 2, 3};
  EXPECT_THROW(manifest_text(manifest), InputError);
  tensor.slices = good;
  tensor.slices.pop_back();
  EXPECT_THROW(manifest_text(manifest), InputError) << "a hole";
}

// Every plane is a slice; and slices that begin in every plane and reach through all of them.
TEST(Manifest, SlicesOfThreeDimensionsAreCheckedQuickly) {
  constexpr std::int64_t kPlanes = 6000;
  Manifest manifest;
  manifest.files = {file_of("a", 4 * kPlanes * kPlanes)};
  TensorRecord& tensor = manifest.tensors["x"];
  tensor = {DType::f32, {kPlanes, kPlanes, 1}, {}};
  for (std::int64_t i = 0; i < kPlanes; ++i)
    tensor.slices.push_back({0, 0, {i, 0, 0}, {1, kPlanes, 1}});
  EXPECT_NE(manifest_text(manifest), "");
  tensor.slices = {{0, 0, {0, 0, 0}, {kPlanes, 1, 1}}};
  for (std::int64_t i = 1; i < kPlanes; ++i) {
    tensor.slices.push_back({0, 0, {0, i, 0}, {i, 1, 1}});
    tensor.slices.push_back({0, 0, {i, i, 0}, {kPlanes - i, 1, 1}});
  }
  EXPECT_THROW(manifest_text(manifest), InputError);
}

// A grid of slices, and the same with one of them moved onto its neighbour.
TEST(Manifest, ManySlicesAreCheckedQuickly) {
  Manifest manifest;
  manifest.files = {file_of("a", 360'000)};
  TensorRecord& tensor = manifest.tensors["x"];
  tensor = {DType::f32, {300, 300}, {}};
  for (std::int64_t row = 0; row < 300; ++row)
    for (std::int64_t column = 0; column < 300; ++column)
      tensor.slices.push_back({0, 0, {row, column}, {1, 1}});
  EXPECT_NO_THROW(manifest_text(manifest));
  tensor.slices[150 * 300 + 7].offset = {150, 8};
  EXPECT_THROW(manifest_text(manifest), Error);
}

TEST(Manifest, EveryFlippedBitIsSeen) {
  const std::string good = manifest_text(small_manifest());
  for (std::size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(bad, "m"), InputError) << i << " " << bit;
    }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(parse_manifest(std::string_view(good).substr(0, size), "m"), InputError) << size;
}

TEST(BlockDigests, DoNotDependOnThePieces) {
  std::string bytes(9 << 20, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
  std::vector<Digest> want;
  for (std::size_t at = 0; at < bytes.size(); at += kDigestBlock)
    want.push_back(compute_digest(std::string_view(bytes).substr(at, kDigestBlock)));
  for (const std::size_t piece : {1'000'003u, 4u << 20, 9u << 20, 77'777u}) {
    BlockDigests digests;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      digests.add(bytes.data() + at, std::min(piece, bytes.size() - at));
    EXPECT_EQ(digests.finish(), want) << piece;
  }
}

// As xxh128sum prints it, so that people can check files with tools that they have.
TEST(Digest, IsXxh3) {
  EXPECT_EQ(compute_digest(std::string_view("")).to_string(), "99aa06d3014798d86001c324468d497f");
  Digest back;
  EXPECT_TRUE(parse_digest("99aa06d3014798d86001c324468d497f", back));
  EXPECT_EQ(back, compute_digest(std::string_view("")));
  EXPECT_FALSE(parse_digest("99aa06d3014798d86001c324468d497", back));
  EXPECT_FALSE(parse_digest("99aa06d3014798d86001c324468d497F", back));
}

}  // namespace
}  // namespace tessera
