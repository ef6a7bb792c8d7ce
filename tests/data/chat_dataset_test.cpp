// Conversations packed into samples: each once an epoch and whole, what counts, and the order.
#include "tessera/data/datasets/chat_dataset.h"

#include <array>

#include "tests/data/chat_case.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::ChatSamples;

TEST_F(ChatSamples, EveryConversationOnceAnEpoch) {
  const auto one = build(std::nullopt);
  const auto three = build(2 * one->size() + 1);
  ASSERT_EQ(three->size(), 3 * one->size());
  std::vector<std::uint64_t> first;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::multiset<std::int32_t> seen;
    std::vector<std::uint64_t> order;
    for (std::int64_t i = 0; i < one->size(); ++i) {
      take(sample(*three, epoch * one->size() + i), seen);
      order.push_back(three->identity(epoch * one->size() + i));
    }
    ASSERT_EQ(seen.size(), 50u);
    EXPECT_EQ(std::set<std::int32_t>(seen.begin(), seen.end()).size(), 50u);
    EXPECT_NE(order, first) << "epochs have orders of their own";
    first = order;
    std::sort(order.begin(), order.end());
    EXPECT_EQ(std::unique(order.begin(), order.end()), order.end());
  }
}

TEST_F(ChatSamples, FollowFromTheSeedAndNotFromTheLengthOfARun) {
  const auto few = build(1), many = build(100);
  for (std::int64_t i = 0; i < few->size(); ++i) {
    EXPECT_EQ(sample(*few, i), sample(*many, i));
    EXPECT_EQ(few->identity(i), many->identity(i));
  }
  options_.seed = 99;
  const auto other = build(1);
  bool differs = false;
  for (std::int64_t i = 0; i < few->size(); ++i) differs |= sample(*few, i) != sample(*other, i);
  EXPECT_TRUE(differs);
}

TEST_F(ChatSamples, LongOnesAreCutAndCounted) {
  options_.seq_length = 9;
  testing::internal::CaptureStderr();
  const auto data = build(std::nullopt);
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("of 50 conversations have more than 10 tokens and are cut: raise"),
            std::string::npos)
      << logged;
  options_.seq_length = 2;  // where nothing that is learned is left
  testing::internal::CaptureStderr();
  EXPECT_EQ(build(std::nullopt)->size(), 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("50 of them left out"), std::string::npos);
}

TEST_F(ChatSamples, ACutConversationKeepsItsBeginning) {
  Tokens learned(40);
  for (std::size_t i = 0; i < learned.size(); ++i) learned[i] = i % 5 < 2 ? 1 : 0;
  Tokens fitting = learned;
  fitting.resize(kLength + 1);
  write_masks("cut", {learned, fitting}, 7);
  options_.data_path = {prefix("cut")};
  testing::internal::CaptureStderr();
  const auto data = build(std::nullopt);
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("1 of 2 conversations have more than 25 tokens and are cut: raise"),
            std::string::npos)
      << logged;
  ASSERT_EQ(data->size(), 2);
  std::set<std::int32_t> firsts;
  for (const std::int64_t i : {0, 1}) {
    const Sample got = sample(*data, i);
    firsts.insert(got.tokens[0]);
    Sample want;
    std::iota(want.tokens.begin(), want.tokens.end(), got.tokens[0]);
    std::iota(want.labels.begin(), want.labels.end(), got.tokens[0] + 1);
    std::iota(want.positions.begin(), want.positions.end(), 0);
    std::copy_n(learned.begin() + 1, kLength, want.mask.begin());
    want.documents.assign(kLength, kLength);
    want.documents[0] = 0;
    EXPECT_EQ(got, want) << i;
  }
  EXPECT_EQ(firsts, (std::set<std::int32_t>{700, 800}));
}

// Of 26 tokens the first 24 are input, and those from the second to the 25th labels.
TEST_F(ChatSamples, ACutConversationStaysWhereItsLastLabelIsLearned) {
  std::vector<Tokens> masks(3, Tokens(kLength + 2));
  masks[0][kLength + 1] = 1;  // just outside
  masks[1][kLength] = 1;      // just inside
  masks[2][0] = 1;            // never a label
  write_masks("edge", masks, 3);
  options_.data_path = {prefix("edge")};
  testing::internal::CaptureStderr();
  const auto data = build(std::nullopt);
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("3 of 3 conversations"), std::string::npos) << logged;
  EXPECT_NE(logged.find("2 of them left out"), std::string::npos) << logged;
  ASSERT_EQ(data->size(), 1);
  const Sample got = sample(*data, 0);
  EXPECT_EQ(got.tokens.front(), 400);
  EXPECT_EQ(got.labels.back(), 424);
  std::vector<float> mask(kLength, 0.0f);
  mask.back() = 1;
  EXPECT_EQ(got.mask, mask);
}

// By the largest lag behind the weight, the first of equals; from each in its own order.
TEST_F(ChatSamples, ABlendTakesTheSamplesOfItsDataSetsInTheirOrder) {
  write("b", 30, 50);
  std::array<std::shared_ptr<const Dataset>, 2> alone;
  for (const std::size_t k : {0u, 1u}) {
    options_.data_path = {prefix(k == 0 ? "a" : "b")};
    alone[k] = build(100);
  }
  options_.data_path = {"3", prefix("a"), "1", prefix("b")};
  const auto blend = build(100);
  ASSERT_EQ(blend->size(), 100);
  std::array<std::int64_t, 2> taken{};
  std::set<std::uint64_t> identities;
  for (std::int64_t i = 0; i < blend->size(); ++i) {
    const auto lag = [&](std::size_t k, double weight) {
      return weight * static_cast<double>(std::max<std::int64_t>(i, 1)) -
             static_cast<double>(taken[k]);
    };
    const std::size_t k = lag(0, 0.75) >= lag(1, 0.25) ? 0 : 1;
    ASSERT_EQ(sample(*blend, i), sample(*alone[k], taken[k]++)) << i;
    ASSERT_EQ(sample(*blend, i).tokens[0] >= 5000, k == 1) << i;
    identities.insert(blend->identity(i));
  }
  EXPECT_EQ(taken, (std::array<std::int64_t, 2>{75, 25}));
  options_.data_path = {prefix("a"), prefix("b")};  // without weights each comes once
  const auto once = build(std::nullopt);
  std::multiset<std::int32_t> seen;
  for (std::int64_t i = 0; i < once->size(); ++i) take(sample(*once, i), seen);
  EXPECT_EQ(seen.size(), 80u);
  EXPECT_EQ(std::set<std::int32_t>(seen.begin(), seen.end()).size(), 80u);
  EXPECT_EQ(identities.size(), static_cast<std::size_t>(once->size()));
}

TEST_F(ChatSamples, SplitsAsOtherData) {
  options_.split = "1,1,0";
  const DatasetBuilder builder(options_, *tokenizer_);
  std::multiset<std::int32_t> seen;
  for (const Split split : {Split::train, Split::valid}) {
    const auto data = builder.build(split, std::nullopt).front().dataset;
    for (std::int64_t i = 0; i < data->size(); ++i) take(sample(*data, i), seen);
  }
  EXPECT_EQ(seen.size(), 50u);
}

TEST_F(ChatSamples, RefusesWhatDoesNotFit) {
  const auto refuses = [&](std::initializer_list<const char*> parts) {
    test::expect_input_error([&] { build(1); }, parts);
  };
  fs::rename(folder_ / "a_mask.idx", folder_ / "kept");
  refuses({"a_mask.idx' is missing", "preprocess --chat-template"});
  write("b", 49);
  fs::copy_file(folder_ / "b_mask.idx", folder_ / "a_mask.idx");
  refuses({"do not belong together"});
  fs::remove(folder_ / "a_mask.idx");
  fs::rename(folder_ / "kept", folder_ / "a_mask.idx");
  options_.data_path = {(folder_ / "a").string()};
  for (const char* ending : {".idx", ".bin"})
    fs::copy_file(prefix("a") + ending, (folder_ / "a").string() + ending);
  refuses({"does not end in _document"});
  // Tokens in place of a mask.
  options_.data_path = {prefix("a")};
  fs::copy_file(prefix("a") + ".bin", folder_ / "a_mask.bin", fs::copy_options::overwrite_existing);
  const auto data = build(1);
  test::expect_input_error([&] { sample(*data, 0); }, {"expected 0 or 1", "is this a mask?"});
  options_.mock_data = true;
  options_.data_path = {};
  refuses({"--mock-data", "--sft"});
}

}  // namespace
}  // namespace tessera
