#include "tessera/data/build_datasets.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "tessera/data/indexed/indexed_dataset_writer.h"
#include "tests/data/data_vectors.h"
#include "tests/data/index_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using Words = std::vector<std::string>;

// Three data sets, as make_data_vectors.py has them.
class BuildDatasets : public testing::Test {
 protected:
  BuildDatasets() {
    options_.seq_length = test::data_vectors()["length"];
    options_.seed = test::data_vectors()["seed"];
    options_.tokenizer.kind = TokenizerKind::null;
    options_.tokenizer.vocab_size = 60000;
    tokenizer_ = make_tokenizer(options_.tokenizer);
    for (std::int32_t n = 0; n < 3; ++n) {
      IndexedDatasetWriter writer(prefix(n), TokenType::u16);
      for (std::int32_t d = 0; d < 30 + 20 * n; ++d) {
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(3 + (n * 13 + d * 7) % 23));
        for (std::size_t i = 0; i < tokens.size(); ++i)
          tokens[i] = (n * 4001 + d * 31 + static_cast<std::int32_t>(i)) % 60000;
        writer.add_document(tokens);
      }
      writer.finish();
    }
  }

  std::string prefix(int n) const { return (folder_ / fmt::format("set{}", n)).string(); }

  // The words of the vectors name data sets by their numbers.
  Words named(const Words& words, bool weighted) const {
    Words paths = words;
    for (std::size_t i = weighted ? 1 : 0; i < words.size(); i += weighted ? 2 : 1)
      paths[i] = prefix(std::stoi(words[i]));
    return paths;
  }

  std::vector<NamedDataset> build(Split split, std::optional<std::int64_t> samples) const {
    return DatasetBuilder(options_, *tokenizer_).build(split, samples);
  }

  std::vector<std::int32_t> sample(const Dataset& data, std::int64_t i) const {
    const auto length = static_cast<std::size_t>(options_.seq_length);
    std::vector<std::int32_t> tokens(length), labels(length), positions(length);
    std::vector<float> mask(length);
    data.get(i, {tokens, labels, mask, positions});
    tokens.push_back(labels.back());
    return tokens;
  }

  void expect_case(const Json& expected) const {
    const std::string split = expected["split"];
    const Split which = split == "train"   ? Split::train
                        : split == "valid" ? Split::valid
                                           : Split::test;
    std::optional<std::int64_t> samples;
    if (!expected["samples"].is_null()) samples = expected["samples"].get<std::int64_t>();
    const auto built = build(which, samples);
    ASSERT_EQ(built.size(), 1u);
    const Dataset& data = *built[0].dataset;
    ASSERT_EQ(data.size(), expected["size"]);
    EXPECT_EQ(sample(data, 0), expected["first"].get<std::vector<std::int32_t>>());
    test::Fnv all;
    for (std::int64_t i = 0; i < data.size(); ++i)
      for (const std::int32_t token : sample(data, i)) all.add(static_cast<std::uint64_t>(token));
    EXPECT_EQ(all.text(), expected["tokens"]);
  }

  test::TempFolder folder_;
  DataOptions options_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(BuildDatasets, EverySampleIsMegatrons) {
  for (const bool cache : {false, true, true})
    for (const Json& expected : test::data_vectors()["datasets"]) {
      SCOPED_TRACE(expected["flags"].dump() + " " + expected["split"].dump());
      const Json& flags = expected["flags"];
      options_.data_path = options_.valid_data_path = {};
      options_.data_cache_path = cache ? (folder_ / "cache").string() : "";
      for (const auto& [flag, words] : flags.items()) {
        if (flag == "split") {
          options_.split = words;
          continue;
        }
        const auto list = words.get<Words>();
        const bool weighted = list.size() % 2 == 0;
        (flag == "data-path" ? options_.data_path : options_.valid_data_path) =
            named(list, weighted);
      }
      expect_case(expected);
    }
}

TEST_F(BuildDatasets, FilesOfWordsMeanWhatFlagsMean) {
  options_.valid_data_path = {"2", prefix(0), "1", prefix(1)};
  const auto flags = build(Split::valid, 50);
  options_.valid_data_path = {};
  options_.per_split_data_args_path = (folder_ / "json").string();
  write_file_atomically(options_.per_split_data_args_path,
                        Json{{"valid", {2, prefix(0), 1, prefix(1)}}}.dump());
  const auto file = build(Split::valid, 50);
  ASSERT_EQ(flags[0].dataset->size(), file[0].dataset->size());
  for (std::int64_t i = 0; i < file[0].dataset->size(); ++i)
    EXPECT_EQ(sample(*file[0].dataset, i), sample(*flags[0].dataset, i));
  const DatasetBuilder builder(options_, *tokenizer_);
  EXPECT_TRUE(builder.is_empty(Split::train));
  EXPECT_FALSE(builder.is_empty(Split::valid));
  test::expect_input_error([&] { builder.build(Split::test, 1); },
                           {"no test data", "--test-data-path"});
}

TEST_F(BuildDatasets, ValidationSetsByThemselves) {
  options_.multiple_validation_sets = true;
  options_.valid_data_path = {prefix(0), prefix(1), prefix(0)};
  const auto sets = build(Split::valid, 40);
  ASSERT_EQ(sets.size(), 3u);
  EXPECT_EQ(sets[0].name, "set0");
  EXPECT_EQ(sets[1].name, "set1");
  EXPECT_EQ(sets[2].name, "set0-2");
  options_.valid_data_path = {prefix(1)};
  const auto alone = build(Split::valid, 40);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(sample(*sets[1].dataset, 7), sample(*alone[0].dataset, 7));
  options_.valid_data_path = {"1", prefix(0), "1", prefix(1)};
  test::expect_input_error([&] { build(Split::valid, 40); }, {"without weights"});
}

TEST_F(BuildDatasets, RefusesWhatCannotBe) {
  options_.data_path = {"1", prefix(0), "1", (folder_ / "nowhere").string()};
  test::expect_input_error([&] { build(Split::train, 10); }, {"nowhere.idx", "preprocess"});
  options_.data_path = {"1", prefix(0), "1", prefix(1)};
  options_.split = "1,0,0";
  test::expect_input_error([&] { build(Split::valid, 10); }, {"set0", "leaves none", "valid"});
  test::expect_input_error([&] { build(Split::train, std::nullopt); },
                           {"--full-validation", "without weights"});
  options_.data_path = {prefix(0), prefix(1)};
  options_.seq_length = 100000;
  test::expect_input_error([&] { build(Split::train, 10); }, {"set0", "too few tokens", "100001"});
  options_.data_path = {};
  test::expect_input_error([&] { build(Split::train, 10); }, {"--data-path", "--mock-data"});
}

TEST_F(BuildDatasets, OddFilesCanBeReadAndAreNamed) {
  options_.data_path = {prefix(0), prefix(1)};
  EXPECT_TRUE(DatasetBuilder(options_, *tokenizer_).warnings().empty());
  const std::uintmax_t size = fs::file_size(prefix(1) + ".bin");
  const auto before = sample(*build(Split::train, 5).front().dataset, 3);
  fs::resize_file(prefix(1) + ".bin", size + 3);
  const std::vector<std::string> warnings = DatasetBuilder(options_, *tokenizer_).warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(fmt::format("set1.idx': its sequences have {} bytes, but the .bin "
                                         "file has {}",
                                         size, size + 3)),
            std::string::npos)
      << warnings[0];
  EXPECT_EQ(sample(*build(Split::train, 5).front().dataset, 3), before);
}

// In a sparse file of 26 GB.
TEST_F(BuildDatasets, TooManySequencesAreRefused) {
  constexpr std::uint64_t kSequences = std::uint64_t{1} << 31;
  std::vector<std::byte> header = test::index_bytes(8, {}, {}, {0, kSequences});
  test::overwrite(header, 18, kSequences);
  const std::string many = (folder_ / "many").string();
  const auto put = [&](std::uint64_t at, std::span<const std::byte> bytes) {
    std::fstream file(many + ".idx", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at))
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  std::ofstream(many + ".bin") << "";
  std::ofstream(many + ".idx") << "";
  fs::resize_file(many + ".idx", 34 + 12 * kSequences + 16);
  put(0, std::span(header).first(34));
  put(34 + 12 * kSequences, std::span(header).last(16));
  options_.data_path = {many};
  options_.split = "1,0,0";
  test::expect_input_error([&] { build(Split::train, 5); },
                           {"many", "2147483648 sequences", "2147483647", "split-data"});
}

}  // namespace
}  // namespace tessera
