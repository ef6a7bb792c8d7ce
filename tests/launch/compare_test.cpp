// Texts that ranks compare.
#include "tessera/launch/compare.h"

#include <gtest/gtest.h>

#include "tessera/launch/launch.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

TEST(Compare, GathersTextsOfAnyLength) {
  run_ranks(4, 1, [](Rank& rank) {
    const std::vector<std::string> texts{"", "one\n", std::string(5000, 'x'), "z"};
    EXPECT_EQ(gather_texts(*rank.world, texts[static_cast<std::size_t>(rank.rank)]), texts);
    EXPECT_EQ(gather_texts(*rank.world, ""), std::vector<std::string>(4));
  });
}

TEST(Compare, EqualTextsPass) {
  run_ranks(3, 1, [](Rank& rank) { compare_across(*rank.world, "configuration", "a\nb\n"); });
  compare_across(*make_self_communicator(), "configuration", "a");
}

// Every rank must get the error.
void expect_difference(const std::vector<std::string>& texts,
                       std::initializer_list<const char*> parts) {
  run_ranks(static_cast<int>(texts.size()), 1, [&](Rank& rank) {
    test::expect_input_error(
        [&] {
          compare_across(*rank.world, "configuration", texts[static_cast<std::size_t>(rank.rank)]);
        },
        parts);
  });
}

TEST(Compare, NamesTheRanksAndTheFirstLine) {
  const std::string common = "seed: 1\nlr: 0.1\nsplit: 9,1\n";
  const std::string other = "seed: 1\nlr: 0.2\nsplit: 8,2\n";
  expect_difference({common, common, other, other, common, other},
                    {"the same configuration", "ranks 2, 3 and 5 and rank 0 differ",
                     "line 2: 'lr: 0.1' on rank 0, 'lr: 0.2' on ranks 2, 3 and 5"});
}

TEST(Compare, EachDifferenceIsSaidWithItsRanks) {
  expect_difference({"a\nb\nc\n", "a\nb\nx\n", "y\nb\nc\n", "a\nb\nx\n"},
                    {"ranks 1-3 and rank 0 differ", "line 3: 'c' on rank 0, 'x' on ranks 1 and 3",
                     "line 1: 'a' on rank 0, 'y' on rank 2"});
  expect_difference({"0", "1", "2", "3", "4", "5"}, {"'4' on rank 4; and so on"});
}

TEST(Compare, ALineMoreOrLess) {
  expect_difference({"a\nb\n", "a\n"},
                    {"rank 1", "line 2", "'b' on rank 0", "no such line on rank 1"});
  expect_difference({"", "a"}, {"line 1", "no such line on rank 0", "'a' on rank 1"});
}

TEST(Compare, WhatOnlyTheLastLineEndTells) { expect_difference({"a", "a\n"}, {"rank 1"}); }

TEST(Compare, ABuildHasAVersionFlagsLibrariesAndAHash) {
  const std::string text = build_description();
  for (const char* part : {"version ", "configured at commit ", "compiler ", "flags ",
                           "-march=", "CUDA ", "library libmpi.so."})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  const std::size_t program = text.find("program ");
  ASSERT_NE(program, std::string::npos) << text;
  EXPECT_EQ(text.find_first_not_of("0123456789abcdef", program + 8), program + 8 + 40) << text;
}

TEST(Ranks, AreListed) {
  EXPECT_EQ(list_of_ranks({4}), "rank 4");
  EXPECT_EQ(list_of_ranks({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(list_of_ranks({0, 2, 5, 6, 7}), "ranks 0, 2 and 5-7");
  EXPECT_EQ(list_of_ranks({1, 2, 3, 4}), "ranks 1-4");
}

}  // namespace
}  // namespace tessera
