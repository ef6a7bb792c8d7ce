// What a rank keeps of parameters, gradients and optimizer state, measured beside the formulas
// (docs/data_parallelism.md), and printed as a table. Per parameter of a bf16 model trained by
// Adam, over d ranks, in bytes: 2 of the parameter, 4 of its gradient, 12 of its state (8 of
// moments, 4 of a master weight).
//
//   no sharding  18        gradients   2 + 16/d and an FSDP unit's gradients
//   optimizer    6 + 12/d  parameters  18/d, an FSDP unit's gradients, and two FSDP units
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tessera/observe/inspect.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

SessionOptions memory_session(int data, Sharding sharding) {
  SessionOptions options = test::tiny_session("llama");
  options.shape = {16, 1};
  ModelOptions& model = options.model;
  model.dtype = DType::bf16;
  model.hidden_size = 128;
  model.ffn_hidden_size = 384;
  model.num_layers = 6;
  model.num_attention_heads = 8;
  model.kv_channels = 16;
  model.vocab_size = 3000;
  model.tie_embeddings = false;
  options.optimizer.store_param_remainders = false;
  options.parallel.data = data;
  options.parallel.sharding = sharding;
  return options;
}

struct Measured {
  double state = 0;  ///< bytes of parameters, gradients and optimizer state
  double padding = 0;
  double parameters = 0;      ///< how many
  double two_fsdp_units = 0;  ///< elements of gathered FSDP units
  double fsdp_unit = 0;       ///< elements of the largest FSDP unit
  double rest = 0;            ///< bytes beside the formula: tables of angles, records of steps
};

double held(const MemoryCounters& counters, MemoryUse use) {
  return static_cast<double>(counters.bytes[static_cast<std::size_t>(use)]);
}

Measured measure(const SessionOptions& options) {
  Measured measured;
  run_ranks(options.parallel.data, 1, [&](Rank& rank) {
    Session session(options, rank);
    const MemoryCounters& counters = session.memory().counters();
    const MemoryCounters planned = plan_memory(options, 1);
    for (const MemoryUse use : {MemoryUse::parameters, MemoryUse::gradients, MemoryUse::optimizer})
      EXPECT_EQ(held(counters, use), held(planned, use)) << to_string(use);
    if (rank.rank > 0) return;
    const BucketLayout& layout = session.parameters().classes().front().layout();
    const ParameterBuffers::Elements elements =
        ParameterBuffers::elements_for(layout, buffer_options(options, PlacementClass::dense, 0));
    for (const Parameter* parameter : session.parameters().parameters())
      measured.parameters += static_cast<double>(parameter->shape().numel());
    measured.state = held(counters, MemoryUse::parameters) + held(counters, MemoryUse::gradients) +
                     held(counters, MemoryUse::optimizer);
    measured.padding = static_cast<double>(layout.elements()) - measured.parameters;
    measured.two_fsdp_units = static_cast<double>(elements.slots[0] + elements.slots[1]);
    measured.fsdp_unit = static_cast<double>(elements.grad_slot);
    measured.rest = static_cast<double>(
        session.chunks().front().rope_bytes(
            Session::plan(options, session.chunks(), 0, session.context().kernels).positions) +
        Optimizer::bytes_for(options.optimizer, 0, options.model.dtype));
  });
  return measured;
}

double bytes_each(Sharding sharding, double d) {
  switch (sharding) {
    case Sharding::none: return 18;
    case Sharding::optimizer: return 6 + 12 / d;
    case Sharding::gradients: return 2 + 16 / d;
    case Sharding::parameters: return 18 / d;
  }
  return 0;
}

TEST(DataMemory, FollowsTheFormulas) {
  fmt::print("  d  sharding     formula  measured  units at work  padding  bytes per parameter\n");
  constexpr const char* kNames[] = {"none", "optimizer", "gradients", "parameters"};
  for (const int d : {1, 2, 4, 8})
    for (const Sharding sharding :
         {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
      const Measured got = measure(memory_session(d, sharding));
      const double formula = bytes_each(sharding, d) * got.parameters;
      const double units = 2 * got.two_fsdp_units + 4 * got.fsdp_unit;
      const double state = got.state - got.rest - units;
      fmt::print("  {}  {:<10} {:>9.0f} {:>9.0f} {:>14.0f} {:>8.0f} {:>20.2f}\n", d,
                 kNames[static_cast<int>(sharding)], formula, state, units, got.padding,
                 state / got.parameters);
      EXPECT_NEAR(state, formula, 0.03 * formula);
      EXPECT_GE(state, formula);
    }
}

}  // namespace
}  // namespace tessera
