// Extra losses over ranks: added up over the world, as means over the sequences of the global
// batch.
#include "tessera/engine/extra_losses.h"

#include <gtest/gtest.h>

#include "tessera/kernels/step_state.h"
#include "tessera/launch/launch.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

TEST(ExtraLosses, AreMeansOverAllSequences) {
  run_ranks(2, 1, [](Rank& rank) {
    test::Lab lab;
    const Mesh mesh({.data = 2}, rank.world);
    Context context{*lab.operator->(), lab.stream, mesh, {}};
    // Layers of this rank: both have a balance, the second rank's has another loss too.
    ExtraLoss balance("balance", 0), other("other", 1);
    ExtraLossList own{&balance};
    if (rank.rank == 1) own.push_back(&other);
    ExtraLosses losses({.names = {"balance", "other"}, .statistics = 1}, own, 8, context,
                       lab.memory);
    const Tensor state = lab.full(DType::u8, {sizeof(StepState)}, 0);
    const StepState start{.loss_scale = 16};
    lab.stream.api().copy_bytes(lab.stream.native(), state.view().raw(), &start, sizeof(start));
    for (int step = 0; step < 2; ++step) {
      losses.begin_step(context, state.view());
      EXPECT_EQ(lab.read(balance.grad_scale())[0], 2) << "16 of a loss scale, 8 sequences";
      for (int microbatch = 0; microbatch < 2; ++microbatch)
        balance.sum().data<double>()[0] += rank.rank + 1;
      if (rank.rank == 1) other.sum().data<double>()[0] = 4;
      losses.finish_step(context);
      losses.statistics().data<double>()[0] = 7;
      EXPECT_EQ(lab.read(losses.values()), (test::Values{6.0 / 8, 4.0 / 8, 7}));
    }
    EXPECT_EQ(ExtraLosses::bytes_for({.names = losses.names(), .statistics = 1}), 6 * 8);
  });
}

// Layers add up their losses apart; the means over all of them come from these. A loss that is a
// mean already is of no layer.
TEST(ExtraLosses, CanBeKeptByLayer) {
  run_ranks(2, 1, [](Rank& rank) {
    test::Lab lab;
    const Mesh mesh({.data = 2}, rank.world);
    Context context{*lab.operator->(), lab.stream, mesh, {}};
    ExtraLoss first("balance", 0), third("balance", 2), other("other", 2), mean("mean");
    const ExtraLosses::Plan plan{
        .names = {"balance", "other", "mean"}, .means = 1, .statistics = 1, .layers = 3};
    ExtraLosses losses(plan, {&first, &third, &other, &mean}, 8, context, lab.memory);
    const Tensor state = lab.full(DType::u8, {sizeof(StepState)}, 0);
    const StepState start;
    lab.stream.api().copy_bytes(lab.stream.native(), state.view().raw(), &start, sizeof(start));
    const Tensor by_layer = lab.full(DType::f64, {3, 2}, -1);
    for (int step = 0; step < 2; ++step) {
      losses.begin_step(context, state.view());
      first.sum().data<double>()[0] += 8 + 8 * rank.rank;
      third.sum().data<double>()[0] += 4;
      other.sum().data<double>()[0] += 16;
      mean.sum().data<double>()[0] += 0.5;
      losses.finish_step(context);
      losses.statistics().data<double>()[0] = 7;
      EXPECT_EQ(lab.read(losses.values()), (test::Values{4, 4, 1, 7}));
      losses.write_by_layer(context, by_layer);
      EXPECT_EQ(lab.read(by_layer), (test::Values{3, 0, 0, 0, 1, 4}));
    }
    EXPECT_EQ(ExtraLosses::bytes_for(plan), (7 + 3 * 2 + 3) * 8);
  });
}

TEST(ExtraLosses, CostNothingWhereThereAreNone) {
  test::Lab lab;
  const Mesh mesh({}, make_self_communicator());
  Context context{*lab.operator->(), lab.stream, mesh, {}};
  const std::int64_t before = lab.memory.counters().allocations;
  ExtraLosses losses({}, {}, 8, context, lab.memory);
  losses.begin_step(context, {});
  losses.finish_step(context);
  EXPECT_EQ(lab.memory.counters().allocations, before);
  EXPECT_FALSE(losses.values());
}

TEST(ExtraLosses, MustBeNamedByTheModel) {
  test::Lab lab;
  const Mesh mesh({}, make_self_communicator());
  Context context{*lab.operator->(), lab.stream, mesh, {}};
  ExtraLoss loss("balance", 0);
  EXPECT_THROW(ExtraLosses({}, {&loss}, 8, context, lab.memory).names(), Error);
}

}  // namespace
}  // namespace tessera
