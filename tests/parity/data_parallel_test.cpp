// Data parallelism computes what one rank does with the same global batch: alone and with tensor
// and sequence parallelism, whatever is sharded, with gradient accumulation and unequal masks, in
// f64 where rounding cannot hide a fault. TESSERA_FULL goes through all cases, otherwise a sample.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/layout_cases.h"
#include "tests/support/lazy_communicator.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using test::LayoutResult;

struct DataCase {
  std::string family;
  bool tied;
  int data;
  int tensor;
  bool sequence_parallel;
  Sharding sharding;
  int instances;
  int microbatches;  ///< per data-parallel rank
  bool overlap;

  std::string text() const {
    return fmt::format("{} {} data {} tensor {}{} sharding {} instances {} microbatches {}{}",
                       family, tied ? "tied" : "untied", data, tensor,
                       sequence_parallel ? " sequence-parallel" : "", static_cast<int>(sharding),
                       instances, microbatches, overlap ? " overlapped" : "");
  }
  SessionOptions session(DType dtype) const;
  DataCase alone() const {
    return {family, tied, 1, 1, false, Sharding::none, 1, microbatches * data, false};
  }
};

SessionOptions DataCase::session(DType dtype) const {
  SessionOptions options = test::tiny_session(family);
  options.shape = {16, 2};
  options.microbatches = microbatches;
  ModelOptions& model = options.model;
  model.dtype = dtype;
  model.num_layers = 3;
  model.num_attention_heads = 8;
  model.num_query_groups = 2;
  model.tie_embeddings = tied;
  model.vocab_size = 53;  // odd, so that ranks hold unequal parts
  model.attention_dropout = model.hidden_dropout = 0.1;
  ParallelOptions& parallel = options.parallel;
  parallel.tensor = tensor;
  parallel.sequence_parallel = sequence_parallel;
  parallel.data = data;
  parallel.sharding = sharding;
  parallel.sharding_instances = instances;
  parallel.overlap_grad_reduce = parallel.overlap_param_gather = overlap;
  parallel.bucket_elements = 30'000;  // a few layers
  options.optimizer.adam_eps = 1e-3;
  return options;
}

std::vector<DataCase> data_cases() {
  std::vector<DataCase> cases;
  for (const char* family : {"gpt", "llama"})
    for (const bool tied : {false, true})
      for (const auto& [data, tensor] :
           {std::pair{2, 1}, {3, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 2}, {2, 4}})
        for (const bool sequence_parallel : {false, true})
          for (const Sharding sharding :
               {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters})
            for (const int instances : {1, 2})
              for (const int microbatches : {1, 4})
                if ((!sequence_parallel || tensor > 1) &&
                    (instances == 1 || (data % 2 == 0 && sharding != Sharding::none)))
                  cases.push_back({family, tied, data, tensor, sequence_parallel, sharding,
                                   instances, microbatches, cases.size() % 3 != 0});
  return cases;
}

TEST(DataParallel, EqualsOneRankInF64) {
  test::expect_cases_equal_one_rank(data_cases(), test::all_cases() ? 1 : 41);
}

TEST(DataParallel, EqualsOneRankInF32) {
  test::expect_cases_near_one_rank(data_cases(), test::all_cases() ? 5 : 101, DType::f32, 1e-5);
}

// Sums of the same numbers in the same order are the same to the bit.
TEST(DataParallel, ShardingsAgreeBitForBit) {
  for (const int microbatches : {1, 4}) {
    DataCase c{"llama", false, 4, 2, true, Sharding::none, 1, microbatches, false};
    SessionOptions options = c.session(DType::f32);
    options.optimizer.clip_grad = 0;  // the norm's sum has another order
    const LayoutResult want = test::run_layout(options, 5);
    options.parallel.sharding = Sharding::optimizer;
    test::expect_tensors_near(test::run_layout(options, 5).weights, want.weights, 0);
    if (microbatches > 1) continue;  // sums over microbatches come last there
    for (const Sharding sharding : {Sharding::gradients, Sharding::parameters}) {
      options.parallel.sharding = sharding;
      test::expect_tensors_near(test::run_layout(options, 5).weights, want.weights, 0);
    }
  }
}

// What nobody waits for never happens here.
TEST(DataParallel, WaitsForAllThatItAsksFor) {
  const auto lazy = [](std::shared_ptr<Communicator> world) {
    return std::make_shared<test::LazyCommunicator>(std::move(world));
  };
  const std::vector<DataCase> cases = data_cases();
  for (std::size_t i = 0; i < cases.size(); i += 61) {
    SCOPED_TRACE(cases[i].text());
    const SessionOptions options = cases[i].session(DType::f64);
    test::expect_same_layouts(test::run_layout(options, 2, {.wrap = lazy}),
                              test::run_layout(options, 2), {0, 0, 0});
  }
}

}  // namespace
}  // namespace tessera
