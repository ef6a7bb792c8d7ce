// Lines of flags that users copy from guides to Megatron, as they stand, at a small size: they
// train, and the loss is one rank's.
#include <gtest/gtest.h>

#include "tests/support/run_program.h"

namespace tessera {
namespace {

class LaunchLines : public testing::Test {
 protected:
  test::ProgramResult train(const std::string& line) {
    return test::run_line(
        TESSERA_PROGRAM,
        "train --mock-data --tokenizer-type NullTokenizer --vocab-size 100 --num-layers 2 "
        "--hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
        "--micro-batch-size 1 --global-batch-size 8 --lr 1e-2 --eval-iters 0 --log-interval 1 "
        "--threads 1 --train-iters 4 --swiglu --disable-bias-linear " +
            line,
        temp_.path());
  }
  // The losses of the log, in all printed digits.
  std::vector<std::string> losses(const std::string& line) {
    const test::ProgramResult result = train(line);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    std::vector<std::string> found;
    const std::string before = "lm loss: ";
    for (std::size_t at = result.error.find(before); at != std::string::npos;
         at = result.error.find(before, at + 1))
      found.push_back(result.error.substr(at + before.size(), 9));
    EXPECT_EQ(found.size(), 4u) << result.error;
    return found;
  }
  test::TempFolder temp_;
};

TEST_F(LaunchLines, OfContextParallelism) {
  EXPECT_EQ(losses("--context-parallel-size 2 --cp-comm-type p2p --nproc 2"), losses(""));
  // Llama-3-8B on 8 ranks.
  EXPECT_EQ(losses("--context-parallel-size 2 --cp-comm-type p2p --nproc 8"), losses(""));
}

// Llama's layers, on each kind of exchange and in processes of their own.
TEST_F(LaunchLines, OfContextParallelismWithGroupedHeads) {
  const std::string llama =
      "--group-query-attention --num-query-groups 2 --normalization RMSNorm "
      "--position-embedding-type rope ";
  const std::vector<std::string> one = losses(llama);
  for (const char* kind : {"p2p", "all_gather", "a2a"})
    EXPECT_EQ(losses(llama + "--context-parallel-size 2 --nproc 2 --cp-comm-type " + kind), one)
        << kind;
  for (const char* kind : {"p2p", "a2a"})
    EXPECT_EQ(losses(llama +
                     "--context-parallel-size 2 --nproc 2 --launch processes "
                     "--cp-comm-type " +
                     kind),
              one)
        << kind;
}

TEST_F(LaunchLines, OfExpertParallelism) {
  // Of two layers; 1 would be equal use.
  const test::ProgramResult balance = train("--num-experts 4 --moe-aux-loss-coeff 1e-2");
  const std::string before = "| seq_load_balancing_loss: ";
  const std::size_t at = balance.error.find(before);
  ASSERT_NE(at, std::string::npos) << balance.error;
  EXPECT_NEAR(std::stod(balance.error.substr(at + before.size())), 1.1, 0.2);
  EXPECT_EQ(losses("--expert-model-parallel-size 8 --num-experts 64 --moe-grouped-gemm --nproc 8"),
            losses("--num-experts 64"));
}

TEST_F(LaunchLines, OfExpertsWithTensorParallelism) {
  EXPECT_EQ(losses("--tensor-model-parallel-size 4 --expert-model-parallel-size 8 "
                   "--sequence-parallel --num-experts 64 --nproc 32"),
            losses("--num-experts 64"));
}

}  // namespace
}  // namespace tessera
