// What inspect says of a GPU's memory is what a session there holds. Skipped where there is no GPU.
#include "tessera/observe/inspect.h"

#include <gtest/gtest.h>

#include "tests/cuda/on_gpu.h"
#include "tests/train/session_run.h"

namespace tessera {
namespace {

class GpuPlan : public test::OnGpu {};

TEST_P(GpuPlan, IsWhatASessionHolds) {
  for (const bool deterministic : {true, false}) {
    SessionOptions options = test::wide_session("llama", test::kGpu, GetParam());
    options.cuda.deterministic = deterministic;
    const MemoryCounters planned = plan_memory(options, 2);
    Session session(options, {0, 1, 2, make_self_communicator()});
    for (int i = 0; i < kMemoryUses; ++i)
      EXPECT_EQ(planned.bytes[static_cast<std::size_t>(i)],
                session.memory().counters().bytes[static_cast<std::size_t>(i)])
          << to_string(static_cast<MemoryUse>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuPlan, ::testing::Values(DType::f32, DType::bf16),
                         test::name_of_dtype);

}  // namespace
}  // namespace tessera
