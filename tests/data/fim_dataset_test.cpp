#include "tessera/data/datasets/fim_dataset.h"

#include <gtest/gtest.h>

#include "tessera/data/build_datasets.h"
#include "tessera/data/indexed/indexed_dataset_writer.h"
#include "tessera/data/loader.h"
#include "tests/data/fim_case.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::FimTokenList;
using test::kFimEod;
using test::kFimPad;

constexpr std::int64_t kFimLength = 48;

// Two files of stories, one of them in single bytes: they have fewer tokens when they are encoded.
class FimDatasetTest : public testing::Test {
 protected:
  FimDatasetTest() {
    options_.tokenizer = test::fim_tokenizer();
    options_.seq_length = kFimLength;
    options_.split = "1,0,0";
    options_.fim.enabled = true;
    options_.fim.rate = 1;
    write("stories", false);
    write("bytes", true);
    options_.data_path = {path("stories")};
  }

  std::string path(const char* name) const { return (folder_ / name).string(); }

  void write(const char* name, bool bytes) const {
    IndexedDatasetWriter writer(path(name), TokenType::u16);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (int word = 0; word < 5 + i * 7 % 23; ++word) text += word % 2 ? "shared " : "größe, ";
      FimTokenList tokens = tokenizer_->encode(text);
      if (bytes) {
        tokens.clear();
        for (const char c : text) tokens.push_back(tokenizer_->encode({&c, 1}).at(0));
      }
      tokens.push_back(kFimEod);
      writer.add_document(tokens);
    }
    writer.finish();
  }

  std::shared_ptr<const Dataset> build(bool fim = true) const {
    DataOptions options = options_;
    options.fim.enabled = fim;
    return DatasetBuilder(options, *tokenizer_).build(Split::train, 100).at(0).dataset;
  }

  static HostBatch sample_of(const std::shared_ptr<const Dataset>& dataset, std::int64_t i) {
    return Loader(dataset, {.documents = true}, i).next();
  }

  test::TempFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = make_tokenizer(test::fim_tokenizer());
  DataOptions options_;
};

void expect_equal_batches(const HostBatch& a, const HostBatch& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.loss_mask, b.loss_mask);
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.documents, b.documents);
}

TEST_F(FimDatasetTest, RateZeroChangesNothing) {
  options_.fim.rate = 0;
  options_.eod_mask_loss = options_.reset_position_ids = true;
  const auto plain = build(false), fim = build();
  ASSERT_EQ(fim->size(), plain->size());
  for (std::int64_t i = 0; i < plain->size(); ++i)
    expect_equal_batches(sample_of(fim, i), sample_of(plain, i));
}

TEST_F(FimDatasetTest, CutsWhatIsTooLong) {
  const auto plain = build(false), fim = build();
  EXPECT_EQ(fim->seq_length(), kFimLength);
  const FillInTheMiddle rearrange(options_.fim, *tokenizer_, options_.seed);
  int cut = 0;
  for (std::int64_t i = 0; i < plain->size(); ++i) {
    const HostBatch before = sample_of(plain, i), after = sample_of(fim, i);
    FimTokenList tokens = before.tokens;
    tokens.push_back(before.labels.back());
    FimTokenList expected = rearrange.rearranged(i, tokens);
    cut += expected.size() > tokens.size();
    expected.resize(tokens.size(), kFimPad);
    EXPECT_EQ(after.tokens, FimTokenList(expected.begin(), expected.end() - 1));
    EXPECT_EQ(after.labels, FimTokenList(expected.begin() + 1, expected.end()));
  }
  EXPECT_GT(cut, 50);
}

TEST_F(FimDatasetTest, PaddingCountsNothing) {
  options_.data_path = {path("bytes")};
  const auto fim = build();
  int padded = 0;
  for (std::int64_t i = 0; i < fim->size(); ++i) {
    const HostBatch sample = sample_of(fim, i);
    for (std::size_t t = 0; t < sample.labels.size(); ++t) {
      EXPECT_EQ(sample.loss_mask[t], sample.labels[t] == kFimPad ? 0.0f : 1.0f) << i << " " << t;
      padded += sample.labels[t] == kFimPad;
    }
  }
  EXPECT_GT(padded, 100);
}

TEST_F(FimDatasetTest, MarksFollowTheDocuments) {
  options_.eod_mask_loss = options_.reset_position_ids = true;
  const auto plain = build(false), fim = build();
  int moved = 0;
  for (std::int64_t i = 0; i < fim->size(); ++i) {
    const HostBatch sample = sample_of(fim, i);
    std::size_t documents = 0;
    std::int32_t position = 0;
    for (std::size_t t = 0; t < sample.tokens.size(); ++t) {
      const bool begins = t == 0 || sample.tokens[t - 1] == kFimEod;
      position = begins ? 0 : position + 1;
      EXPECT_EQ(sample.positions[t], position);
      EXPECT_EQ(sample.loss_mask[t], sample.tokens[t] == kFimEod ? 0.0f : 1.0f);
      if (begins) {
        EXPECT_EQ(sample.documents.at(documents++), static_cast<std::int32_t>(t));
      }
    }
    for (; documents < sample.documents.size(); ++documents)
      EXPECT_EQ(sample.documents[documents], kFimLength);
    moved += sample.documents != sample_of(plain, i).documents;
  }
  EXPECT_GT(moved, 50);
}

TEST_F(FimDatasetTest, IdentitiesStay) {
  options_.data_path = {"0.5", path("stories"), "0.5", path("bytes")};
  const auto plain = build(false), fim = build();
  ASSERT_EQ(fim->size(), plain->size());
  for (std::int64_t i = 0; i < plain->size(); ++i) {
    EXPECT_EQ(fim->identity(i), plain->identity(i));
    EXPECT_NE(fim->identity(i), fim->identity((i + 1) % fim->size()));
  }
}

TEST_F(FimDatasetTest, RanksWorkersAndResumedRunsSeeTheSameSamples) {
  options_.data_path = {"0.5", path("stories"), "0.5", path("bytes")};
  options_.fim.rate = 0.5;
  const auto whole = build(), again = build();
  for (int rank = 0; rank < 2; ++rank) {
    Loader loader(again, {3, rank, 2, 2, true, false, true}, 12);
    for (int block = 0; block < 8; ++block) {
      const HostBatch& batch = loader.next();
      for (std::size_t row = 0; row < 3; ++row) {
        const HostBatch alone = sample_of(whole, batch.sample_numbers[row]);
        const auto begin = batch.tokens.begin() + static_cast<std::ptrdiff_t>(row) * kFimLength;
        EXPECT_EQ(alone.tokens, FimTokenList(begin, begin + kFimLength));
      }
    }
  }
  options_.seed += 1;  // only of what is drawn: the order differs, too
  EXPECT_NE(sample_of(build(), 0).tokens, sample_of(whole, 0).tokens);
}

TEST_F(FimDatasetTest, SamplesOfTheSameTextAreDrawnForApart) {
  options_.data_path = {"0.5", path("stories"), "0.5", path("stories")};
  const auto plain = build(false), fim = build();
  // Both data sets have the same order, so that samples come in pairs.
  int pairs = 0, equal = 0;
  for (std::int64_t i = 0; i + 1 < plain->size(); i += 2) {
    if (sample_of(plain, i).tokens != sample_of(plain, i + 1).tokens) continue;
    ++pairs;
    equal += sample_of(fim, i).tokens == sample_of(fim, i + 1).tokens;
  }
  EXPECT_GT(pairs, 30);
  EXPECT_LT(equal, 3);
}

TEST_F(FimDatasetTest, RefusesTokensThatAreNotThere) {
  options_.fim.pad_token = "<pad>";
  test::expect_input_error([&] { build(); }, {"--fim-pad-token '<pad>'", "no such token"});
}

}  // namespace
}  // namespace tessera
