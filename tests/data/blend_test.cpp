#include "tessera/data/datasets/blend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <thread>

#include "tessera/data/datasets/blend_indices.h"
#include "tessera/data/datasets/blended_dataset.h"
#include "tests/data/data_vectors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using Words = std::vector<std::string>;

TEST(BlendIndices, AreMegatronsForWeights) {
  for (const Json& expected : test::data_vectors()["blends"]) {
    const auto samples = expected["samples"].get<std::int64_t>();
    const auto weights = normalized_weights(expected["weights"].get<std::vector<double>>());
    std::vector<std::int64_t> targets, built;
    std::int64_t size = 0;
    for (const double weight : weights) {
      targets.push_back(blend_share(samples, weight));
      built.push_back(blend_share_with_surplus(samples, weight));
      size += targets.back();
    }
    const std::vector<double> again = normalized_weights(weights);
    test::Fnv bits;
    for (const double weight : again) bits.add(std::bit_cast<std::uint64_t>(weight));
    EXPECT_EQ(bits.text(), expected["normalized"]);
    EXPECT_EQ(test::fnv_of(targets), expected["targets"]);
    EXPECT_EQ(test::fnv_of(built), expected["built"]);
    ASSERT_EQ(size, expected["size"]);
    const BlendIndices indices = blend_by_weights("", again, size);
    const auto first = expected["first"].get<std::vector<std::int16_t>>();
    EXPECT_TRUE(std::ranges::equal(indices.dataset.first(first.size()), first));
    EXPECT_EQ(test::fnv_of(indices.dataset), expected["datasets"]) << expected["weights"].dump();
    EXPECT_EQ(test::fnv_of(indices.sample), expected["numbers"]);
  }
}

TEST(BlendIndices, AreMegatronsForAllSamples) {
  for (const Json& expected : test::data_vectors()["exhaustive"]) {
    const auto sizes = expected["sizes"].get<std::vector<std::int64_t>>();
    const BlendIndices indices = blend_exhaustively("", sizes);
    EXPECT_TRUE(
        std::ranges::equal(indices.dataset, expected["datasets"].get<std::vector<std::int16_t>>()));
    EXPECT_TRUE(
        std::ranges::equal(indices.sample, expected["numbers"].get<std::vector<std::int64_t>>()));
  }
}

// The published array, and the numbers in its data sets, as NumPy stores them.
TEST(BlendIndices, FilesHaveMegatronsTypes) {
  const test::TempFolder folder;
  blend_by_weights(folder.path(), std::vector<double>{0.3, 0.7}, 10);
  const auto expect_file = [&](const char* ending, const char* type, const auto& values) {
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      if (!entry.path().string().ends_with(ending)) continue;
      const std::string text = read_text_file(entry.path());
      EXPECT_NE(text.find(fmt::format("'descr': '{}'", type)), std::string::npos) << ending;
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(text)).subspan(128),
                                     std::as_bytes(std::span(values))))
          << ending;
      return;
    }
    ADD_FAILURE() << "no file ends with " << ending;
  };
  expect_file("-dataset_index.npy", "<i2", std::vector<std::int16_t>{1, 0, 1, 1, 0, 1, 1, 0, 1, 1});
  expect_file("-dataset_sample_index.npy", "<i8",
              std::vector<std::int64_t>{0, 0, 1, 2, 1, 3, 4, 2, 5, 6});
}

TEST(BlendIndices, AreCachedAndRepaired) {
  const test::TempFolder folder;
  const std::vector<double> weights{0.3, 0.7};
  const BlendIndices fresh = blend_by_weights("", weights, 100);
  const auto expect_same = [&] {
    const BlendIndices cached = blend_by_weights(folder / "cache", weights, 100);
    EXPECT_TRUE(std::ranges::equal(cached.dataset, fresh.dataset));
    EXPECT_TRUE(std::ranges::equal(cached.sample, fresh.sample));
  };
  const auto files = [&] {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(folder / "cache")) paths.push_back(entry);
    return paths;
  };
  {
    std::vector<std::jthread> ranks;
    for (int i = 0; i < 4; ++i) ranks.emplace_back(expect_same);
  }
  ASSERT_EQ(files().size(), 3u);
  for (const fs::path& path : files()) {
    const std::string whole = read_text_file(path);
    std::string damaged = whole;
    damaged.back() ^= 1;
    std::ofstream(path, std::ios::binary) << damaged;
    expect_same();
    EXPECT_EQ(read_text_file(path), whole);
  }
  const std::vector<std::int64_t> sizes{30, 70};
  blend_by_weights(folder / "cache", weights, 101);
  blend_exhaustively(folder / "cache", sizes);
  EXPECT_EQ(files().size(), 9u);
}

TEST(Blend, WordsArePrefixesOrPairs) {
  const auto expect = [](const Words& words, const Words& prefixes,
                         const std::vector<double>& weights) {
    const Blend blend = parse_blend(words, "--data-path");
    EXPECT_EQ(blend.prefixes, prefixes);
    EXPECT_EQ(blend.weights, weights);
  };
  expect({"a"}, {"a"}, {});
  expect({"7"}, {"7"}, {});  // one word is a prefix, whatever it looks like
  expect({"a", "b"}, {"a", "b"}, {});
  expect({"a", "b", "c"}, {"a", "b", "c"}, {});
  expect({"0.3", "a", "7e-1", " b "}, {"a", "b"}, {0.3, 0.7});
  expect({"30", "a", "70", "a"}, {"a", "a"}, {30, 70});
}

TEST(Blend, RefusesWhatCannotBe) {
  const auto refuse = [](const Words& words, std::initializer_list<const char*> parts) {
    test::expect_input_error([&] { parse_blend(words, "--data-path"); }, parts);
  };
  refuse({}, {"--data-path", "no data"});
  refuse({"0", "a", "1", "b"}, {"the weight of 'a' is 0", "above 0"});
  refuse({"1", "a", "-0.5", "b"}, {"the weight of 'b' is -0.5"});
  refuse({"nan", "a"}, {"'a' is nan"});
  refuse({"inf", "a"}, {"'a' is inf"});
  refuse({"1", "a", "b", "c"}, {"1 of 2 words where weights belong"});
  refuse({"1", "a", "2"}, {"3 words", "'1' looks like a weight"});
  refuse({"1", " "}, {"word 2 is empty"});
  refuse({"a", std::string("b\0c", 3)}, {"word 2 holds the byte 0x00"});
  refuse({"\x1b[31mred"}, {"word 1 holds the byte 0x1b", "expected prefixes"});
  refuse(Words(40000, "a"), {"40000 data sets", "at most 32766"});
  const std::vector<double> large{1e308, 1e308};
  test::expect_input_error([&] { normalized_weights(large); }, {"add up to inf"});
}

TEST(Blend, ComesFromFilesToo) {
  const test::TempFolder folder;
  DataOptions options;
  options.data_args_path = (folder / "words").string();
  write_file_atomically(options.data_args_path, "0.25 a\n  0.75\tb\n");
  DataBlends blends = blends_of(options);
  ASSERT_TRUE(blends.shared);
  EXPECT_EQ(blends.shared->prefixes, (Words{"a", "b"}));
  EXPECT_EQ(blends.shared->weights, (std::vector<double>{0.25, 0.75}));

  write_file_atomically(options.data_args_path,
                        "\x7f"
                        "ELF\x02\x01\n\xff");
  test::expect_input_error([&] { blends_of(options); }, {"words': word 1 holds the byte 0x7f"});

  options = {};
  options.per_split_data_args_path = (folder / "json").string();
  write_file_atomically(options.per_split_data_args_path,
                        R"({"train": ["0.5", "a", 1.5, "b"], "valid": ["c", "d"], "test": null})");
  blends = blends_of(options);
  EXPECT_FALSE(blends.shared);
  EXPECT_EQ(blends.per_split[0]->weights, (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(blends.per_split[1]->prefixes, (Words{"c", "d"}));
  EXPECT_FALSE(blends.per_split[2]);

  const auto refuse = [&](const std::string& text, std::initializer_list<const char*> parts) {
    write_file_atomically(options.per_split_data_args_path, text);
    test::expect_input_error([&] { blends_of(options); }, parts);
  };
  refuse("[]", {"json", "expected {\"train\""});
  refuse("{\"training\": []}", {"\"training\" is no split"});
  refuse("{\"train\": \"a\"}", {"\"train\"", "a list of prefixes"});
  refuse("{\"train\": [[1]]}", {"[1] is neither"});
  refuse("{\"train\": []}", {"\"train\" names no data"});
  refuse("{\"train\": [", {"json", "line 1"});
  options.per_split_data_args_path = (folder / "missing").string();
  test::expect_input_error([&] { blends_of(options); }, {"missing"});
}

class FixedSamples : public Dataset {
 public:
  explicit FixedSamples(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::int64_t seq_length() const override { return 1; }
  void get(std::int64_t i, const SampleView& sample) const override {
    sample.tokens[0] = static_cast<std::int32_t>(i);
  }

 private:
  std::int64_t size_;
};

TEST(BlendedDataset, RefusesToTakeMoreThanThereIs) {
  const std::vector<std::shared_ptr<const Dataset>> sets{std::make_shared<FixedSamples>(2),
                                                         std::make_shared<FixedSamples>(5)};
  const std::vector<double> halves{0.5, 0.5};
  EXPECT_NO_THROW(BlendedDataset(sets, blend_by_weights("", halves, 4)));
  test::expect_input_error([&] { BlendedDataset(sets, blend_by_weights("", halves, 6)); },
                           {"takes 3 samples of data set 1, which has 2"});
  const std::vector<std::int16_t> beyond{2};
  const std::vector<std::int64_t> zero{0};
  EXPECT_THROW(BlendedDataset(sets, {beyond, zero, nullptr}), Error);
}

TEST(BlendedDataset, SamplesAreToldApart) {
  const auto same = std::make_shared<FixedSamples>(5);
  const std::vector<double> halves{0.5, 0.5};
  const BlendedDataset blend({same, same}, blend_by_weights("", halves, 6));
  EXPECT_NE(blend.identity(0), blend.identity(1));  // number 0 of the one and of the other
  EXPECT_EQ(blend.identity(2), blend.identity(2));
}

}  // namespace
}  // namespace tessera
