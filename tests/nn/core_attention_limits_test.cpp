// What bounds the attention of context-parallel ranks: one rank, calls that need the most
// workspace, and positions that no other sees.
#include "tests/nn/core_attention_run.h"

namespace tessera::test {
namespace {

void expect_same_bits(const CoreResults& got, const CoreResults& want) {
  EXPECT_TRUE(got.o == want.o) << "o";
  EXPECT_TRUE(got.dq == want.dq) << "dq";
  EXPECT_TRUE(got.dk == want.dk) << "dk";
  EXPECT_TRUE(got.dv == want.dv) << "dv";
}

TEST(CoreAttentionLimits, OneRankIsPlainAttention) {
  for (const CpCommType kind :
       {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a, CpCommType::a2a_p2p})
    for (const std::int64_t window : {0, 5}) {
      CoreCase c{.kind = kind, .ranks = 1, .groups = 2, .window = window, .dropout = 0.2};
      c.chunk = 9;
      SCOPED_TRACE(c.text());
      const CoreResults one = run_core(c, 1);
      c.plain = true;
      expect_same_bits(one, run_core(c, 1));
    }
}

// For a chunk's queries a backend may need more workspace than for those of two chunks, with other
// kernels: each call throws if it gets less than it needs.
TEST(CoreAttentionLimits, WorkspaceIsPlannedForTheCallsThatAreMade) {
  for (const int ranks : {2, 3, 4})
    for (const std::int64_t window : {0, 7})
      expect_all_kinds({.ranks = ranks, .groups = 2, .window = window, .few_queries = 3});
}

// The last document is padding; it ends the sequence, and some ranks have nothing else in a chunk.
// Whatever is in it, the other positions have the same bits.
TEST(CoreAttentionLimits, PaddingIsNotSeen) {
  for (const int ranks : {2, 4})
    for (const std::int64_t groups : {1, 8})
      for_all_kinds({.ranks = ranks, .groups = groups, .documents = {0, 2, 7}},
                    [](const CoreCase& c) {
                      CoreCase huge = c, usual = c;
                      huge.padding = 1e100;
                      usual.padding = 0.5;
                      expect_same_bits(run_core(huge, c.ranks), run_core(usual, c.ranks));
                    });
}

}  // namespace
}  // namespace tessera::test
