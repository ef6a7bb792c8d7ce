#include "tessera/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tests/support/normal_quantiles.h"

namespace tessera {
namespace {

struct KnownAnswer {
  Philox4 counter;
  RngKey key;
  Philox4 expected;
};

// The vectors for philox4x32-10 that the Random123 distribution publishes.
constexpr KnownAnswer kKnownAnswers[] = {
    {{{0, 0, 0, 0}}, 0, {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}}},
    {{{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}},
     0xffffffffffffffffu,
     {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}}},
    {{{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}},
     0x299f31d0a4093822u,
     {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}}}};

TEST(Rng, PhiloxGivesThePublishedWords) {
  for (const KnownAnswer& known : kKnownAnswers) {
    const Philox4 got = philox(known.key, known.counter);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.v[i], known.expected.v[i]);
  }
}

TEST(Rng, AnElementIsOneWordOfItsBlock) {
  const RngKey key = 0x0123456789abcdefu;
  for (const std::uint64_t element : {0u, 1u, 2u, 3u, 4u, 1'000'003u})
    EXPECT_EQ(philox_word(key, element),
              philox(key, {{static_cast<std::uint32_t>(element / 4), 0, 0, 0}}).v[element % 4]);
  const std::uint64_t far = (std::uint64_t{7} << 34) + 3;  // its block needs the second word
  EXPECT_EQ(philox_word(key, far), philox(key, {{0, 7, 0, 0}}).v[3]);
}

TEST(Rng, KeysDifferBySeedPurposeAndName) {
  std::set<RngKey> keys;
  std::size_t drawn = 0;
  for (const std::uint64_t seed : {0u, 1u, 1234u})
    for (const RngPurpose purpose :
         {RngPurpose::weights, RngPurpose::hidden_dropout, RngPurpose::attention_dropout,
          RngPurpose::sampling, RngPurpose::test})
      for (const std::string name : {"", "layer.0", "layer.1", "0.layer", "layer.10"}) {
        keys.insert(rng_key(seed, purpose, name));
        ++drawn;
      }
  EXPECT_EQ(keys.size(), drawn);
}

// Another key would give every resumed run other dropout masks: it must never change.
TEST(Rng, AKeyNeverChanges) {
  EXPECT_EQ(rng_key(1234, RngPurpose::weights, "embedding.weight"), 0x8b294ff67746d9bbu);
}

TEST(Rng, UniformNeverReachesItsEnds) {
  EXPECT_GT(uniform_from_word(0), 0.0);
  EXPECT_LT(uniform_from_word(0xffffffffu), 1.0);
  EXPECT_EQ(uniform_from_word(0), 1.0 - uniform_from_word(0xffffffffu));
  EXPECT_EQ(uniform_from_word(0x80000000u), 0.5 + 0x1p-33);
}

TEST(Rng, NormalIsAccurateInTheMiddleAndInTheTails) {
  double worst = 0;
  for (const test::NormalQuantile& point : test::kNormalQuantiles) {
    const double got = normal_from_uniform(uniform_from_word(point.word));
    worst = std::max(worst, std::fabs(got / point.value - 1));
  }
  EXPECT_LE(worst, 1e-15);
}

TEST(Rng, NormalIsOddAndRising) {
  double last = -10;
  for (std::uint64_t word = 0; word < (std::uint64_t{1} << 32); word += 65537) {
    const auto w = static_cast<std::uint32_t>(word);
    const double x = normal_from_uniform(uniform_from_word(w));
    ASSERT_GT(x, last) << w;
    ASSERT_EQ(x, -normal_from_uniform(uniform_from_word(~w))) << w;
    last = x;
  }
}

TEST(Rng, DropoutBoundIsTheProbability) {
  EXPECT_EQ(dropout_bound(0.0), 0u);
  EXPECT_EQ(dropout_bound(0.5), 0x80000000u);
  EXPECT_EQ(dropout_bound(0.25), 0x40000000u);
  EXPECT_EQ(dropout_bound(1.0), 0xffffffffu);
}

}  // namespace
}  // namespace tessera
