#include "tessera/data/datasets/gpt_indices.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "tessera/data/datasets/numpy_shuffle.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

template <class T>
std::vector<T> copy(std::span<const T> values) {
  return {values.begin(), values.end()};
}

// The elements of an index as they are stored: T must be their type.
template <class T>
std::vector<T> stored(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  EXPECT_EQ(values.size() * sizeof(T), bytes.size());
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::int64_t> values_of(const ShuffleIndex& shuffle) {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < shuffle.size(); ++i) values.push_back(shuffle[i]);
  return values;
}

// document, offset, document, offset, ...
std::vector<std::int64_t> values_of(const SampleIndex& starts) {
  std::vector<std::int64_t> values;
  for (std::size_t k = 0; k < starts.size(); ++k)
    values.insert(values.end(), {starts[k].document, starts[k].offset});
  return values;
}

TEST(NumpyShuffle, DrawsAsNumpyDoes) {
  // From NumPy: RandomState(1234).randint(0, 2**40 + 1), then randint(0, 1000001).
  std::mt19937 generator(1234);
  for (const std::uint64_t expected : {878802328948u, 656147994617u, 617876871857u, 662277595166u})
    EXPECT_EQ(numpy_interval(generator, std::uint64_t{1} << 40), expected);
  for (const std::uint64_t expected : {491179u, 951454u, 564972u, 532348u})
    EXPECT_EQ(numpy_interval(generator, 1000000), expected);
  EXPECT_EQ(numpy_interval(generator, 0), 0u);
}

TEST(NumpyShuffle, ShufflesAsNumpyDoes) {
  std::mt19937 generator(1234);
  std::vector<int> values(10);
  std::iota(values.begin(), values.end(), 0);
  numpy_shuffle(std::span(values), generator);
  EXPECT_EQ(values, (std::vector<int>{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}));
  numpy_shuffle(std::span(values), generator);
  EXPECT_EQ(values, (std::vector<int>{5, 1, 8, 2, 0, 6, 7, 9, 4, 3}));
  numpy_shuffle(std::span<int>(), generator);
}

TEST(GptIndices, MegatronsVectorWithEpochsMixed) {
  const std::vector<std::int32_t> lengths{5, 3, 8, 2, 7};
  const GptIndexSpec spec{{0, 5}, 10, 4, 1234};
  EXPECT_EQ(plan_epochs(25, spec).epochs, 2);
  EXPECT_FALSE(plan_epochs(25, spec).last_epoch_apart);
  const GptIndices indices = build_gpt_indices(lengths, spec);
  EXPECT_EQ(copy(indices.document_index),
            (std::vector<std::int32_t>{2, 2, 4, 1, 0, 3, 4, 0, 1, 3}));
  EXPECT_EQ(stored<std::int32_t>(indices.sample_index.bytes()),
            (std::vector<std::int32_t>{0, 0, 0, 4, 1, 0, 1, 4, 2, 0, 2, 4, 3,
                                       1, 4, 2, 5, 1, 6, 3, 7, 0, 7, 4, 9, 0}));
  EXPECT_EQ(stored<std::uint32_t>(indices.shuffle_index.bytes()),
            (std::vector<std::uint32_t>{3, 11, 2, 1, 7, 5, 4, 0, 8, 6, 10, 9}));
}

TEST(GptIndices, MegatronsVectorWithTheLastEpochApart) {
  const std::vector<std::int32_t> lengths{5, 3, 8, 2, 7};
  const GptIndexSpec spec{{0, 5}, 8, 4, 1234};
  EXPECT_TRUE(plan_epochs(25, spec).last_epoch_apart);
  EXPECT_EQ(plan_epochs(25, spec).samples_apart, 6);
  const GptIndices indices = build_gpt_indices(lengths, spec);
  EXPECT_EQ(copy(indices.document_index),
            (std::vector<std::int32_t>{4, 0, 1, 2, 3, 3, 2, 1, 0, 4}));
  EXPECT_EQ(stored<std::int32_t>(indices.sample_index.bytes()),
            (std::vector<std::int32_t>{0, 0, 0, 4, 1, 1, 2, 0, 3, 1, 3, 5, 4,
                                       1, 6, 1, 6, 5, 7, 1, 8, 2, 9, 1, 9, 5}));
  EXPECT_EQ(stored<std::uint32_t>(indices.shuffle_index.bytes()),
            (std::vector<std::uint32_t>{0, 4, 3, 2, 5, 1, 7, 6, 9, 8, 11, 10}));
}

// Results of an independent reference in Python over NumPy's RandomState; it finds the sample
// starts by searching cumulative token counts. Lengths come from a small generator that both sides
// have.
struct Golden {
  int sequences, max_length;
  SequenceRange range;
  std::int64_t seq_length, num_samples;
  std::uint64_t seed;
  std::int64_t epochs;
  bool apart;
  std::int64_t samples;
  std::uint64_t documents, starts, shuffle;  // digests
};

// clang-format off
const Golden kGolden[] = {
    {1, 9, {0, 1}, 4, 1, 1u, 1, false, 2,
     0xaf63bd4c8601b7dfu, 0xb53f08fa15fd68f9u, 0x08328707b4eb6e3au},
    {40, 100, {0, 40}, 16, 100, 1234u, 1, false, 108,
     0x9f1f90df72de4519u, 0x211f31455869d788u, 0x92d0b71a1daa6eabu},
    {40, 100, {0, 40}, 16, 300, 1234u, 3, true, 326,
     0xd757da666f73ff09u, 0x8cbbd2fd904c291au, 0x3fb73181f9ddc728u},
    {40, 100, {13, 29}, 7, 1000, 0u, 12, true, 1073,
     0x4fc41a4aa9954d4bu, 0x26d0a78220488302u, 0xbace56427324ad5bu},
    {300, 50, {7, 299}, 64, 500, 4294967295u, 5, true, 550,
     0x062be01829b530ebu, 0x32b5fc86b6fc5bc2u, 0x0830c76800109004u},
    {1000, 2000, {0, 969}, 512, 2000, 42u, 2, true, 3801,
     0x1dccca816356ff2bu, 0xf6c429e9dd4604f4u, 0xc5f6d543027b3929u},
    {1000, 2000, {969, 999}, 512, 25, 42u, 1, false, 64,
     0x53683c103798d4d2u, 0xd0b5a2f86356aa7au, 0x121fad2f69cf1261u},
    {5, 3, {0, 5}, 1, 77, 7u, 16, false, 79,
     0x8982f79f07a971bfu, 0x49d849b81a577a92u, 0xe57a8bf85f31f0a6u},
    {2000, 30, {0, 2000}, 1024, 170, 99u, 6, false, 173,
     0xf8df5ade02b3ac53u, 0x7ece6d6f29f90735u, 0x7ae518f6f7b5fe25u},
};
// clang-format on

std::vector<std::int32_t> golden_lengths(const Golden& golden) {
  std::vector<std::int32_t> lengths;
  auto x =
      static_cast<std::uint64_t>(golden.sequences) + static_cast<std::uint64_t>(golden.max_length);
  for (int i = 0; i < golden.sequences; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    lengths.push_back(static_cast<std::int32_t>((x >> 33) % (golden.max_length + 1u)));
  }
  return lengths;
}

template <class T>
std::uint64_t digest(std::span<const T> values) {
  std::uint64_t hash = 14695981039346656037u;
  for (const T& value : values) hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211u;
  return hash;
}

TEST(GptIndices, AgreesWithTheNumpyReference) {
  for (const Golden& golden : kGolden) {
    const std::vector<std::int32_t> all = golden_lengths(golden);
    const auto lengths = std::span(all).subspan(static_cast<std::size_t>(golden.range.begin),
                                                static_cast<std::size_t>(golden.range.size()));
    const GptIndexSpec spec{golden.range, golden.num_samples, golden.seq_length, golden.seed};
    for (const int parts : {0, 1, 7}) {
      SCOPED_TRACE(fmt::format("{} sequences in {} parts", golden.sequences, parts));
      const GptEpochs plan = plan_epochs(count_tokens(lengths, parts), spec);
      const GptIndices indices = build_gpt_indices(lengths, spec, parts);
      const std::vector<std::int64_t> starts = values_of(indices.sample_index);
      const std::vector<std::int64_t> shuffle = values_of(indices.shuffle_index);
      EXPECT_EQ(plan.epochs, golden.epochs);
      EXPECT_EQ(plan.last_epoch_apart, golden.apart);
      EXPECT_EQ(plan.samples, golden.samples);
      EXPECT_EQ(digest(indices.document_index), golden.documents);
      EXPECT_EQ(digest(std::span<const std::int64_t>(starts)), golden.starts);
      EXPECT_EQ(digest(std::span<const std::int64_t>(shuffle)), golden.shuffle);
    }
  }
}

// From where on Megatron's arrays have 64 bits.
TEST(GptIndices, WideOnlyBeyondTheBorders) {
  constexpr std::int64_t kDocuments = std::int64_t{1} << 31;
  constexpr std::int64_t kSamples = (std::int64_t{1} << 32) - 2;
  const auto of_documents = [](std::int64_t documents) {
    return plan_epochs(1,
                       {{0, 1}, documents - 1, 1, 0});  // a sequence of one token, again and again
  };
  EXPECT_EQ(of_documents(kDocuments).epochs, kDocuments);
  EXPECT_TRUE(of_documents(kDocuments).wide_starts);
  EXPECT_FALSE(of_documents(kDocuments).wide_shuffle);
  EXPECT_FALSE(of_documents(kDocuments - 1).wide_starts);
  const auto of_samples = [](std::int64_t samples) {
    return plan_epochs(samples + 1, {{0, 1}, samples, 1, 0});
  };
  EXPECT_EQ(of_samples(kSamples).samples, kSamples);
  EXPECT_TRUE(of_samples(kSamples).wide_shuffle);
  EXPECT_FALSE(of_samples(kSamples).wide_starts);
  EXPECT_FALSE(of_samples(kSamples - 1).wide_shuffle);
}

TEST(GptIndices, WideOnesHaveTheSameValues) {
  const std::vector<std::int32_t> lengths{5, 3, 8, 2, 7};
  const GptIndexSpec spec{{0, 5}, 8, 4, 1234};
  const GptEpochs plan = plan_epochs(25, spec);
  EXPECT_FALSE(plan.wide_starts || plan.wide_shuffle);
  const GptIndices narrow = build_gpt_indices(lengths, spec, plan);
  GptEpochs widened = plan;
  widened.wide_starts = widened.wide_shuffle = true;
  const GptIndices wide = build_gpt_indices(lengths, spec, widened);
  EXPECT_TRUE(wide.sample_index.is_wide() && wide.shuffle_index.is_wide());
  EXPECT_EQ(values_of(wide.sample_index), values_of(narrow.sample_index));
  EXPECT_EQ(values_of(wide.shuffle_index), values_of(narrow.shuffle_index));
  EXPECT_EQ(stored<std::int64_t>(wide.sample_index.bytes()), values_of(narrow.sample_index));
  EXPECT_EQ(stored<std::int64_t>(wide.shuffle_index.bytes()), values_of(narrow.shuffle_index));
}

TEST(IndexArray, HoldsEitherWidth) {
  const std::vector<std::uint32_t> narrow{1, 0xffffffffu};
  const std::vector<std::int64_t> wide{-1, std::int64_t{1} << 40};
  const ShuffleIndex a{std::span(narrow)}, b{std::span(wide)};
  EXPECT_EQ(values_of(a), (std::vector<std::int64_t>{1, 0xffffffff}));
  EXPECT_EQ(values_of(b), wide);
  EXPECT_EQ(a.bytes().size(), 8u);
  EXPECT_EQ(b.bytes().size(), 16u);
  for (const ShuffleIndex& each : {a, b})
    EXPECT_EQ(values_of(ShuffleIndex(each.bytes(), each.is_wide())), values_of(each));
  const std::vector<SampleStart> starts{{std::int64_t{1} << 33, 2}, {3, std::int64_t{1} << 31}};
  const SampleIndex c{std::span(starts)};
  EXPECT_EQ(SampleIndex(c.bytes(), true)[0], starts[0]);
  EXPECT_EQ(SampleIndex(c.bytes(), true)[1], starts[1]);
  EXPECT_EQ(ShuffleIndex().size(), 0u);
}

TEST(GptIndices, RefusesWhatCannotBeIndexed) {
  const std::vector<std::int32_t> empty{0, 0};
  const std::vector<std::int32_t> one{1};
  const std::int64_t huge = std::int64_t{1} << 62;
  test::expect_input_error(
      [&] {
        build_gpt_indices(empty, {{3, 5}, 1, 4, 0});
      },
      {"2 sequences from 3", "no tokens"});
  test::expect_input_error([&] { build_gpt_indices({}, {{3, 3}, 1, 4, 0}); }, {"no tokens"});
  test::expect_input_error([&] { build_gpt_indices(one, {{0, 1}, huge, 4, 0}); }, {"counted"});
  test::expect_input_error(
      [&] {
        build_gpt_indices(one, {{0, 1}, huge / 1024, 4, 0});
      },
      {"epochs", "too many"});
  test::expect_input_error([&] { build_gpt_indices(one, {{0, 1}, 1, 1, 1ull << 32}); }, {"seed"});
  EXPECT_THROW(build_gpt_indices(one, {{0, 2}, 1, 4, 0}), Error);
  EXPECT_THROW(build_gpt_indices(one, {{0, 1}, 1, 0, 0}), Error);
  EXPECT_THROW(build_gpt_indices(one, {{0, 1}, -1, 4, 0}), Error);
}

}  // namespace
}  // namespace tessera
