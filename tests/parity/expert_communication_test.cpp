// What a layer with experts communicates, counted, against the formulas
// (docs/mixture_of_experts.md): per layer, microbatch and rank, for n rows of h channels that go to
// k experts each, over R ranks of which T hold shards of the same expert, of those that go to the
// other ranks:
//
//   all-to-all   forward   k T n h elements there, the same back, and k T n weights
//                backward  the same
//   all-gather   forward   R n h elements there, the same back, and R n k experts and weights
//                backward  the same without the experts
//
// The counts of the rows of all ranks, R E / EP + 1 per rank, come on top of the first.
#include <gtest/gtest.h>

#include "tests/support/step_counts.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

struct ExpertTraffic {
  std::int64_t experts, expert, expert_tensor, data;
};

class ExpertCommunication : public testing::TestWithParam<ExpertTraffic> {
 protected:
  static SessionOptions session(TokenDispatcher dispatcher) {
    const ExpertTraffic& sizes = GetParam();
    SessionOptions options = test::tiny_session("moe");
    options.shape = {16, 2};
    options.model.num_experts = sizes.experts;
    options.model.moe_router_topk = 2;
    options.model.moe_force_balance = true;  // so that every rank receives as much as it sends
    options.parallel.expert = static_cast<int>(sizes.expert);
    options.parallel.expert_tensor = static_cast<int>(sizes.expert_tensor);
    options.parallel.data = static_cast<int>(sizes.data);
    options.parallel.token_dispatcher = dispatcher;
    return options;
  }
  // Bytes of one kind of call in one layer: those of the tensors, of which (R - 1) / R leave a
  // rank.
  static std::int64_t layer_bytes(const SessionOptions& options, const std::string& call,
                                  CommCounts test::StepCounts::*pass) {
    const auto bytes = [&](std::int64_t layers) {
      const test::StepCounts counts = test::step_counts(options, layers);
      const auto found = (counts.*pass).find(call);
      return found == (counts.*pass).end() ? 0 : found->second.bytes;
    };
    return bytes(3) - bytes(2);
  }
};

constexpr std::int64_t kElement = sizeof(float);

TEST_P(ExpertCommunication, AllToAllSendsEachPairOnceThereAndBack) {
  const SessionOptions options = session(TokenDispatcher::alltoall);
  const std::int64_t n = options.shape.rows(), h = options.model.hidden_size;
  const std::int64_t pairs = options.model.moe_router_topk * n * GetParam().expert_tensor;
  const std::int64_t forward = pairs * (2 * h + 1) * kElement;
  const char* call = "all_to_all_rows";
  EXPECT_EQ(layer_bytes(options, call, &test::StepCounts::forward), forward);
  EXPECT_EQ(layer_bytes(options, call, &test::StepCounts::both), 2 * forward);
  const std::int64_t ranks = options.parallel.expert_ranks();
  const std::int64_t counts = ranks * (ranks * GetParam().experts / GetParam().expert + 1);
  EXPECT_EQ(layer_bytes(options, "all_gather", &test::StepCounts::both),
            counts * static_cast<std::int64_t>(sizeof(std::int32_t)));
}

// In training every rank sends every expert, or shard of one, as many rows, whatever tokens chose.
TEST_P(ExpertCommunication, PaddedRowsAreSentForEveryExpert) {
  SessionOptions options = session(TokenDispatcher::alltoall);
  options.model.moe_capacity_factor = 1.5;
  options.model.moe_pad_to_capacity = true;
  const std::int64_t capacity = (3 * 16 * 2 / 2 + GetParam().experts - 1) / GetParam().experts;
  const std::int64_t padded = options.shape.batch * capacity;
  ASSERT_LT(padded, options.shape.rows());
  const std::int64_t rows = GetParam().experts * GetParam().expert_tensor * padded;
  const std::int64_t forward = rows * (2 * options.model.hidden_size + 1) * kElement;
  for (const bool balanced : {true, false}) {
    options.model.moe_force_balance = balanced;
    EXPECT_EQ(layer_bytes(options, "all_to_all_rows", &test::StepCounts::both), 2 * forward);
  }
}

TEST_P(ExpertCommunication, AllGatherHasTheRowsOfAllRanks) {
  const SessionOptions options = session(TokenDispatcher::allgather);
  const std::int64_t ranks = options.parallel.expert_ranks(), k = options.model.moe_router_topk;
  const std::int64_t all = options.shape.rows() * ranks;
  const std::int64_t rows = all * options.model.hidden_size * kElement,
                     weights = all * k * kElement;
  const auto experts = all * k * static_cast<std::int64_t>(sizeof(std::int32_t));
  EXPECT_EQ(layer_bytes(options, "all_gather", &test::StepCounts::forward),
            rows + weights + experts);
  EXPECT_EQ(layer_bytes(options, "reduce_scatter", &test::StepCounts::forward), rows);
  EXPECT_EQ(layer_bytes(options, "all_gather", &test::StepCounts::both),
            2 * rows + weights + experts);
  EXPECT_EQ(layer_bytes(options, "reduce_scatter", &test::StepCounts::both), 2 * rows + weights);
  EXPECT_EQ(layer_bytes(options, "all_to_all_rows", &test::StepCounts::both), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ExpertCommunication,
                         testing::Values(ExpertTraffic{4, 2, 1, 2}, ExpertTraffic{8, 4, 1, 4},
                                         ExpertTraffic{8, 2, 2, 4}, ExpertTraffic{4, 1, 2, 2}));

}  // namespace
}  // namespace tessera
