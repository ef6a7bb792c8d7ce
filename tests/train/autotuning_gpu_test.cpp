// Ranks that share a GPU compute with the same algorithms, whoever timed them. Skipped where there
// is no GPU.
#include <gtest/gtest.h>

#include "tessera/base/files.h"
#include "tests/cuda/on_gpu.h"
#include "tests/support/temp_folder.h"
#include "tests/train/session_run.h"

namespace tessera {
namespace {

using test::kGpu;

struct AutotunedRun {
  std::vector<std::string> autotuned;  ///< by rank
  std::vector<double> losses;          ///< of the training steps, then of an evaluation
};

// The vocabulary does not divide, so that the ranks do not meet the same products.
SessionOptions options_with(const std::string& file, DType dtype) {
  SessionOptions options = test::wide_session("gpt", kGpu, dtype);
  options.parallel.tensor = options.parallel.nproc = 2;
  options.model.vocab_size = 501;
  options.cuda.deterministic = false;
  options.cuda.gemm_file = file;
  return options;
}

AutotunedRun run(const SessionOptions& options) {
  AutotunedRun outcome{std::vector<std::string>(2), {}};
  run_ranks(2, 1, [&](Rank& rank) {
    Session session(options, rank);
    test::RandomBatches batches(options);
    const auto next = [&]() -> const HostBatch& { return batches.next(); };
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i)
      losses.push_back(train_step(session, next, LossAverage::per_microbatch, 1e-3).loss);
    losses.push_back(evaluate_step(session, next, LossAverage::per_microbatch).loss);
    outcome.autotuned[static_cast<std::size_t>(rank.rank)] = session.context().kernels.autotuned();
    if (rank.rank == 0) outcome.losses = losses;
  });
  return outcome;
}

class GpuAutotuning : public test::OnGpu {};

TEST_P(GpuAutotuning, AreTheSameOnAllRanksAndInTheFile) {
  const test::TempFolder folder;
  const fs::path file = folder / "gemms.txt";
  const AutotunedRun first = run(options_with(file.string(), GetParam()));
  EXPECT_FALSE(first.autotuned[0].empty());
  EXPECT_EQ(first.autotuned[1], first.autotuned[0]);
  const std::string kept = read_text_file(file);
  EXPECT_EQ(kept.substr(kept.find('\n') + 1), first.autotuned[0]) << "below the heading";

  const AutotunedRun second = run(options_with(file.string(), GetParam()));
  EXPECT_EQ(second.autotuned, first.autotuned);
  EXPECT_EQ(read_text_file(file), kept) << "nothing was timed anew";
  // In 16 bits attention's backward need not repeat its bits.
  if (GetParam() == DType::f32) {
    EXPECT_EQ(second.losses, first.losses);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuAutotuning, ::testing::Values(DType::f32, DType::bf16),
                         test::name_of_dtype);

}  // namespace
}  // namespace tessera
