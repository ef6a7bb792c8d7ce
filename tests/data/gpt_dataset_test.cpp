#include "tessera/data/datasets/gpt_dataset.h"

#include <gtest/gtest.h>

#include "tessera/data/build_datasets.h"
#include "tessera/data/indexed/indexed_dataset_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using Tokens = std::vector<std::int32_t>;

// Sequences in memory.
class ListSource : public TokenSource {
 public:
  explicit ListSource(std::vector<Tokens> sequences) : sequences_(std::move(sequences)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(sequences_.size()); }
  std::int32_t length(std::int64_t i) const override {
    return static_cast<std::int32_t>(at(i).size());
  }
  void tokens(std::int64_t i, std::int64_t offset, std::span<std::int32_t> out) const override {
    check_token_range(*this, i, offset, out.size());
    std::copy_n(at(i).begin() + offset, out.size(), out.begin());
  }
  const std::string& name() const override { return name_; }

  const Tokens& at(std::int64_t i) const { return sequences_[static_cast<std::size_t>(i)]; }
  std::vector<std::int32_t> lengths() const {
    std::vector<std::int32_t> all;
    for (const Tokens& sequence : sequences_)
      all.push_back(static_cast<std::int32_t>(sequence.size()));
    return all;
  }

 private:
  std::string name_ = "list";
  std::vector<Tokens> sequences_;
};

struct Sample {
  explicit Sample(std::int64_t length)
      : tokens(static_cast<std::size_t>(length)),
        labels(tokens.size()),
        positions(tokens.size()),
        mask(tokens.size()) {}
  SampleView view() { return {tokens, labels, mask, positions}; }
  Tokens tokens, labels, positions;
  std::vector<float> mask;
};

GptIndices indices_of(const ListSource& source, std::int64_t samples, std::int64_t length) {
  return build_gpt_indices(source.lengths(), {{0, source.size()}, samples, length, 1234});
}

// One sequence, so that the stream is known: 1 2 9 3 9 9 4, with 9 as EOD.
Sample eod_sample(bool mask, bool reset) {
  const auto source = std::make_shared<ListSource>(std::vector<Tokens>{{1, 2, 9, 3, 9, 9, 4}});
  const GptDataset data(source, indices_of(*source, 1, 6), {6, 9, 10, mask, reset});
  EXPECT_EQ(data.size(), 1);
  Sample sample(6);
  data.get(0, sample.view());
  return sample;
}

TEST(GptDataset, CutsTheStreamIntoOverlappingSamples) {
  std::vector<Tokens> sequences;
  std::int32_t next = 0;
  for (const int length : {0, 5, 3, 0, 8, 2, 7, 1}) {
    sequences.emplace_back();
    for (int i = 0; i < length; ++i) sequences.back().push_back(next++);
  }
  const auto source = std::make_shared<ListSource>(sequences);
  for (const std::int64_t length : {1, 2, 4, 6, 25}) {
    const GptIndices indices = indices_of(*source, 60 / length, length);
    Tokens stream;
    for (const std::int32_t i : indices.document_index)
      stream.insert(stream.end(), source->at(i).begin(), source->at(i).end());
    const GptDataset data(source, indices, {length, 0, next, false, false});
    ASSERT_GE(data.size(), 60 / length);
    for (std::int64_t i = 0; i < data.size(); ++i) {
      Sample sample(length);
      data.get(i, sample.view());
      const auto at = stream.begin() + indices.shuffle_index[static_cast<std::size_t>(i)] * length;
      EXPECT_EQ(sample.tokens, Tokens(at, at + length));
      EXPECT_EQ(sample.labels, Tokens(at + 1, at + length + 1));
      EXPECT_EQ(sample.mask, std::vector<float>(static_cast<std::size_t>(length), 1.0f));
    }
  }
}

TEST(GptDataset, EodMasksTheLossAndResetsPositions) {
  EXPECT_EQ(eod_sample(false, false).mask, (std::vector<float>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(eod_sample(true, false).mask, (std::vector<float>{1, 1, 0, 1, 0, 0}));
  EXPECT_EQ(eod_sample(true, false).positions, (Tokens{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(eod_sample(false, true).positions, (Tokens{0, 1, 2, 0, 1, 0}));
  EXPECT_EQ(eod_sample(false, true).mask, (std::vector<float>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(eod_sample(true, true).labels, (Tokens{2, 9, 3, 9, 9, 4}));
}

TEST(GptDataset, SaysWhereDocumentsBegin) {
  const auto source = std::make_shared<ListSource>(std::vector<Tokens>{{1, 2, 9, 3, 9, 9, 4}});
  const GptDataset data(source, indices_of(*source, 1, 6), {6, 9, 10, false, false});
  Sample sample(6);
  SampleView view = sample.view();
  Tokens documents(6, -1);
  view.documents = documents;
  data.get(0, view);
  EXPECT_EQ(documents, (Tokens{0, 3, 5, 6, 6, 6}));
  view.documents = view.documents.first(5);
  EXPECT_THROW(data.get(0, view), Error);
}

TEST(GptDataset, TokensOutsideTheVocabularyAreRefused) {
  for (const std::int32_t bad : {10, -1}) {
    const auto source = std::make_shared<ListSource>(std::vector<Tokens>{{1, 2, 3, bad, 5, 6, 7}});
    Sample sample(2);
    const GptDataset checked(source, indices_of(*source, 3, 2), {2, 9, 10, false, false});
    // The token is the last label of one sample and the second token of another.
    int refused = 0;
    for (std::int64_t i = 0; i < checked.size(); ++i) {
      try {
        checked.get(i, sample.view());
      } catch (const InputError&) {
        test::expect_input_error(
            [&] { checked.get(i, sample.view()); },
            {"list", "sequence 0", "position 3", std::to_string(bad).c_str(), "[0, 10)"});
        ++refused;
      }
    }
    EXPECT_EQ(refused, 1);
    const GptDataset unchecked(source, indices_of(*source, 3, 2), {2, 9, 0, false, false});
    for (std::int64_t i = 0; i < unchecked.size(); ++i)
      EXPECT_NO_THROW(unchecked.get(i, sample.view()));
  }
}

TEST(GptDataset, RefusesWrongSamplesAndWrongIndices) {
  const auto source = std::make_shared<ListSource>(std::vector<Tokens>{{1, 2, 3, 4, 5}});
  const GptIndices good = indices_of(*source, 2, 2);
  const GptDataset data(source, good, {2, 9, 10, false, false});
  Sample sample(2), larger(3);
  EXPECT_THROW(data.get(-1, sample.view()), Error);
  EXPECT_THROW(data.get(data.size(), sample.view()), Error);
  EXPECT_THROW(data.get(0, larger.view()), Error);

  const std::vector<std::int64_t> order{0, 1};
  const auto with_starts = [&](std::vector<SampleStart> starts) {
    const GptDataset wrong(
        source, {good.document_index, std::span(std::as_const(starts)), std::span(order), nullptr},
        {2, 9, 10, false, false});
    EXPECT_THROW(wrong.get(0, sample.view()), Error);
  };
  with_starts({{1, 0}, {1, 0}, {1, 0}});
  with_starts({{-1, 0}, {0, 2}, {0, 4}});
  with_starts({{0, 6}, {0, 2}, {0, 4}});
  with_starts({{0, -1}, {0, 2}, {0, 4}});
  with_starts({{0, 4}, {0, 2}, {0, 4}});
  const std::vector<std::int64_t> far{2, 0};
  const GptDataset shuffled(source,
                            {good.document_index, good.sample_index, std::span(far), nullptr},
                            {2, 9, 10, false, false});
  EXPECT_THROW(shuffled.get(0, sample.view()), Error);
  const std::vector<std::int32_t> unknown{1};
  const GptDataset documents(source, {unknown, good.sample_index, good.shuffle_index, nullptr},
                             {2, 9, 10, false, false});
  EXPECT_THROW(documents.get(0, sample.view()), Error);
  EXPECT_THROW(GptDataset(source, {good.document_index, good.sample_index, {}, nullptr},
                          {2, 9, 10, false, false}),
               Error);
}

class BuildGptDataset : public testing::Test {
 protected:
  BuildGptDataset() {
    options_.data_path = {(folder_ / "data").string()};
    options_.split = "6,3,1";
    options_.seq_length = 7;
    IndexedDatasetWriter writer(options_.data_path.front(), TokenType::u16);
    for (std::int32_t i = 0; i < 10; ++i) writer.add_document(Tokens(20, i));
    writer.finish();
  }

  std::shared_ptr<const Dataset> build(Split split, std::int64_t samples) const {
    return DatasetBuilder(options_, tokenizer_).build(split, samples).at(0).dataset;
  }

  test::TempFolder folder_;
  ByteTokenizer tokenizer_;
  DataOptions options_;
};

TEST_F(BuildGptDataset, EachSplitSeesItsOwnSequences) {
  const std::array<std::array<int, 2>, 3> bounds{{{0, 5}, {6, 8}, {9, 9}}};
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    const auto data = build(split, 30);
    ASSERT_GE(data->size(), 30);
    for (std::int64_t i = 0; i < data->size(); ++i) {
      Sample sample(7);
      data->get(i, sample.view());
      for (const std::int32_t token : sample.tokens) {
        EXPECT_GE(token, bounds[static_cast<std::size_t>(split)][0]);
        EXPECT_LE(token, bounds[static_cast<std::size_t>(split)][1]);
      }
    }
  }
}

TEST_F(BuildGptDataset, TheCacheChangesNothing) {
  const auto fresh = build(Split::train, 40);
  options_.data_cache_path = (folder_ / "cache").string();
  for (int run = 0; run < 2; ++run) {
    const auto cached = build(Split::train, 40);
    ASSERT_EQ(cached->size(), fresh->size());
    for (std::int64_t i = 0; i < fresh->size(); ++i) {
      Sample a(7), b(7);
      fresh->get(i, a.view());
      cached->get(i, b.view());
      EXPECT_EQ(a.tokens, b.tokens);
      EXPECT_EQ(a.labels, b.labels);
    }
  }
}

TEST_F(BuildGptDataset, RefusesEmptySplitsAndMissingData) {
  options_.split = "969,30,1";
  test::expect_input_error([&] { build(Split::test, 1); },
                           {"data.bin", "'969,30,1'", "none of the 10 sequences", "test"});
  options_.mock_data = true;
  test::expect_input_error([&] { build(Split::train, 1); }, {"--data-path", "--mock-data"});
  options_.mock_data = false;
  options_.data_path.clear();
  test::expect_input_error([&] { build(Split::train, 1); }, {"--data-path", "--mock-data"});
}

}  // namespace
}  // namespace tessera
