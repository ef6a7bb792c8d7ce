// Every kind of context parallelism computes the attention of one rank, forward and backward, for
// every mask, in f64.
#include "tests/nn/core_attention_run.h"

namespace tessera::test {
namespace {

TEST(CoreAttention, EqualsOneRank) {
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t groups : {1, 4, 8})
      expect_all_kinds({.ranks = ranks, .groups = groups});
}

// Shares of heads of several sizes, whole key/value heads and parts of them.
TEST(CoreAttention, HeadsNeedNotDivide) {
  for (const auto& [heads, groups] :
       {std::pair<std::int64_t, std::int64_t>{7, 7}, {10, 5}, {6, 2}, {8, 2}, {5, 1}})
    for (const int ranks : {3, 4})
      expect_all_kinds({.ranks = ranks, .heads = heads, .groups = groups});
}

TEST(CoreAttention, FullAttention) {
  for (const int ranks : {2, 3, 8})
    for (const std::int64_t groups : {1, 8}) {
      expect_all_kinds({.ranks = ranks, .groups = groups, .causal = false});
      expect_all_kinds({.ranks = ranks, .groups = groups, .causal = false, .window = 5});
      expect_all_kinds({.ranks = ranks, .groups = groups, .causal = false, .documents = {0, 1, 6}});
    }
}

// Windows shorter than a chunk of 3 positions, as long, longer, and longer than the sequence.
TEST(CoreAttention, Windows) {
  for (const int ranks : {2, 4})
    for (std::int64_t window = 1; window <= 2 * 3 * ranks + 1; window += ranks == 2 ? 1 : 3)
      expect_all_kinds({.ranks = ranks, .groups = 4, .window = window});
  for (const int ranks : {3, 8})
    for (const std::int64_t window : {1, 3, 7})
      expect_all_kinds({.ranks = ranks, .groups = 2, .window = window});
}

TEST(CoreAttention, DocumentsOfAnyLengths) {
  for (const int ranks : {2, 3, 4}) {
    expect_all_kinds({.ranks = ranks, .groups = 2, .documents = {0, 1, 6, 11}});
    expect_all_kinds({.ranks = ranks, .groups = 2, .documents = {0, 1, 2, 3, 4, 5}});
    expect_all_kinds({.ranks = ranks, .groups = 4, .window = 4, .documents = {0, 5}});
  }
}

// 48 to 192 positions.
TEST(CoreAttention, LongerChunks) {
  for (const int ranks : {2, 3, 4, 8})
    for (const auto& documents : {std::vector<double>{}, {0, 1, 6, 19}})
      expect_all_kinds({.ranks = ranks,
                        .groups = 2,
                        .documents = documents,
                        .chunk = 12,
                        .value_size = 8,
                        .head_size = 8});
}

// The kernels work on 128 keys at a time.
TEST(CoreAttention, MoreKeysThanTheKernelsTakeAtATime) {
  expect_all_kinds({.ranks = 2, .heads = 2, .groups = 1, .chunk = 80, .head_size = 8});
}

TEST(CoreAttention, DropoutAndSoftCapsFollowGlobalPositionsAndHeads) {
  for (const int ranks : {2, 3, 4}) {
    expect_all_kinds({.ranks = ranks, .groups = 2, .dropout = 0.4});
    expect_all_kinds(
        {.ranks = ranks, .groups = 8, .window = 7, .documents = {0, 4}, .dropout = 0.2});
    expect_all_kinds({.ranks = ranks, .groups = 4, .softcap = 0.7});
  }
}

TEST(CoreAttention, ChunksOfOnePosition) {
  for (const int ranks : {2, 3, 8})
    expect_all_kinds({.ranks = ranks, .groups = 4, .window = 3, .chunk = 1});
}

TEST(CoreAttention, ShorterTypes) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const int ranks : {2, 4})
      for (const std::int64_t groups : {1, 8})
        expect_all_kinds({.ranks = ranks, .groups = groups, .dtype = dtype});
}

// Latent attention has smaller value heads than key heads; larger ones work as well.
TEST(CoreAttention, ValueHeadsOfAnotherSize) {
  for (const std::int64_t value_size : {3, 7})
    for (const int ranks : {2, 3, 4})
      for (const std::int64_t groups : {2, 8}) {
        expect_all_kinds({.ranks = ranks, .groups = groups, .value_size = value_size});
        expect_all_kinds({.ranks = ranks,
                          .groups = groups,
                          .window = 5,
                          .documents = {0, 4},
                          .dropout = 0.2,
                          .value_size = value_size});
      }
}

TEST(CoreAttention, Recompute) {
  for (const int ranks : {2, 4}) expect_all_kinds({.ranks = ranks, .groups = 4, .recompute = true});
}

// A missing wait, or a buffer that is written while it is being sent, shows.
TEST(CoreAttention, NothingIsUsedBeforeItArrived) {
  for (const int ranks : {2, 3, 4, 8})
    expect_all_kinds({.ranks = ranks, .groups = ranks == 2 ? 1 : 8, .lazy = true});
}

}  // namespace
}  // namespace tessera::test
