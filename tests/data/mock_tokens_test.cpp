#include "tessera/data/datasets/mock_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/data/build_datasets.h"
#include "tessera/data/datasets/gpt_indices.h"

namespace tessera {
namespace {

TEST(MockTokens, LengthsAreNumpys) {
  const MockTokens mock{NullTokenizer(131072)};
  ASSERT_EQ(mock.size(), 100000);
  const std::vector<std::int32_t> first{3484, 2609, 2094, 1105, 1261, 168, 309, 68};
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(mock.length(static_cast<std::int64_t>(i)), first[i]);
  std::int64_t sum = 0;
  std::uint64_t digest = 0;  // of all in their order, from NumPy
  for (std::int64_t i = 0; i < mock.size(); ++i) {
    sum += mock.length(i);
    digest = digest * 31 + static_cast<std::uint64_t>(mock.length(i));
  }
  EXPECT_EQ(sum, 204637097);
  EXPECT_EQ(digest, 3579080297696847061u);
}

TEST(MockTokens, CountsUpToTheEodAndStaysInTheVocabulary) {
  const MockTokens mock{NullTokenizer(9)};
  std::vector<std::int32_t> tokens(12);
  mock.tokens(7, 0, tokens);  // 68 tokens
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}));
  tokens.resize(3);
  mock.tokens(7, 65, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{6, 7, 9}));
  EXPECT_THROW(mock.tokens(7, 66, tokens), Error);
  EXPECT_THROW(mock.tokens(100000, 0, tokens), Error);
}

TEST(MockTokens, TheIndicesOfTheTrainSplitAreMegatrons) {
  const MockTokens mock{NullTokenizer(131072)};
  const SequenceRange train = split_ranges("1,1,1", mock.size())[0];
  EXPECT_EQ(train, (SequenceRange{0, 33333}));
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = train.begin; i < train.end; ++i) lengths.push_back(mock.length(i));
  EXPECT_EQ(count_tokens(lengths), 68190290);
  const GptIndices indices = build_gpt_indices(lengths, {train, 8000, 8192, 1234});
  EXPECT_TRUE(std::ranges::equal(indices.document_index.first(4),
                                 std::vector<std::int32_t>{30903, 11571, 3134, 32473}));
  EXPECT_EQ(indices.shuffle_index.size(), 8324u);
  const std::vector<std::int64_t> first{201, 1675, 268, 4657};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(indices.shuffle_index[i], first[i]);
}

TEST(MockTokens, TheFirstSampleIsMegatrons) {
  constexpr std::size_t kLength = 8192;
  DataOptions options;
  options.mock_data = true;
  options.seq_length = kLength;
  options.tokenizer.kind = TokenizerKind::null;
  options.tokenizer.vocab_size = 131072;
  const auto tokenizer = make_tokenizer(options.tokenizer);
  const auto train = DatasetBuilder(options, *tokenizer).build(Split::train, 8000).at(0).dataset;
  EXPECT_EQ(train->size(), 8324);
  std::vector<std::int32_t> tokens(kLength), labels(kLength), positions(kLength);
  std::vector<float> mask(kLength);
  train->get(0, {tokens, labels, mask, positions});
  EXPECT_EQ(tokens[0], 966);
  EXPECT_EQ(tokens[1], 967);
  EXPECT_EQ(labels[0], 967);
  tokens.push_back(labels.back());
  EXPECT_EQ(std::ranges::count(tokens, 131072), 5);
  EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}), 11482604);
}

}  // namespace
}  // namespace tessera
