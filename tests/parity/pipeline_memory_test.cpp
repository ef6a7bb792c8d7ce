// What the ranks of a pipeline hold of activations, measured beside the checker's count: in a step
// as many activation buffers are taken at once as it says are in flight, there are no more of them,
// and each has what the formulas say that layers keep.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tessera/observe/inspect.h"
#include "tessera/pipeline/check.h"
#include "tessera/spec/layer_activations.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

SessionOptions pipeline_session(ScheduleKind schedule, int ranks, int chunks, int microbatches) {
  SessionOptions options = test::tiny_session("llama");
  options.model.num_layers = 16;
  options.microbatches = microbatches;
  options.parallel.pipeline = ranks;
  options.pipeline.schedule = schedule;
  options.pipeline.chunks = chunks;
  return options;
}

std::int64_t held_activations(const MemoryCounters& counters) {
  return counters.bytes[static_cast<std::size_t>(MemoryUse::activations)];
}

struct PipelineMemory {
  std::int64_t activations = 0;
  std::int64_t boundary_bytes = 0;
  std::int64_t buffer_bytes = 0;  ///< of an activation buffer
  Executor::Peak step;            ///< what was held in a training step
  Executor::Peak afterwards;      ///< and when an evaluation has followed
  int boundary_buffers = 0;
};

std::vector<PipelineMemory> measure_pipeline(const SessionOptions& options) {
  std::vector<PipelineMemory> measured(static_cast<std::size_t>(options.parallel.pipeline));
  run_ranks(options.parallel.pipeline, 1, [&](Rank& rank) {
    Session session(options, rank);
    PipelineMemory& mine = measured[static_cast<std::size_t>(rank.rank)];
    mine.activations = held_activations(session.memory().counters());
    mine.boundary_buffers =
        Session::plan(options, session.chunks(), rank.rank, session.context().kernels)
            .boundary_buffers;
    mine.boundary_bytes = mine.boundary_buffers * BoundaryBuffers::message_bytes(
                                                      options.model.dtype, boundary_shape(options));
    for (const StageRunner& runner : session.runners())
      mine.buffer_bytes =
          std::max(mine.buffer_bytes, static_cast<std::int64_t>(runner.sizes().activations));
    EXPECT_EQ(mine.activations, held_activations(plan_memory(options, 1, rank.rank)))
        << "as inspect says";
    // A step stays within it.
    const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
    const std::int64_t before = session.memory().counters().allocations;
    train_step(
        session, [&]() -> const HostBatch& { return batch; }, LossAverage::per_microbatch, 1e-2);
    EXPECT_EQ(session.memory().counters().allocations, before);
    mine.step = session.step_runner().executor().peak();
    session.step_runner().run_microbatches(false);
    mine.afterwards = session.step_runner().executor().peak();
  });
  return measured;
}

TEST(PipelineMemory, IsWhatTheCheckerCounts) {
  const struct {
    ScheduleKind schedule;
    int chunks;
    const char* name;
  } kinds[] = {{ScheduleKind::gpipe, 1, "gpipe"},
               {ScheduleKind::one_f_one_b, 1, "1f1b"},
               {ScheduleKind::interleaved, 2, "interleaved"},
               {ScheduleKind::zb_h1, 1, "zb-h1"},
               {ScheduleKind::zb_v, 2, "zb-v"}};
  fmt::print("  schedule     ranks  rank  in flight  bytes of a buffer  activations\n");
  for (const auto& kind : kinds)
    for (const int ranks : {1, 2, 4, 8}) {
      if (ranks == 1 && kind.chunks > 1) continue;
      const SessionOptions options = pipeline_session(kind.schedule, ranks, kind.chunks, 2 * ranks);
      const PipelineShape shape =
          make_pipeline_shape(options.pipeline, ranks, options.microbatches);
      const ScheduleReport report =
          check_schedules(shape, training_schedules(options.pipeline, shape));
      const std::vector<PipelineMemory> measured = measure_pipeline(options);
      for (std::size_t r = 0; r < measured.size(); ++r) {
        SCOPED_TRACE(fmt::format("{}, rank {} of {}", kind.name, r, ranks));
        EXPECT_EQ(measured[r].step.activation_buffers, report.in_flight[r]);
        EXPECT_EQ(measured[r].afterwards.activation_buffers, report.in_flight[r]);
        EXPECT_EQ(measured[r].activations - measured[r].boundary_bytes,
                  measured[r].step.activation_buffers * measured[r].buffer_bytes);
        EXPECT_LE(measured[r].afterwards.messages, measured[r].boundary_buffers);
        EXPECT_EQ(measured[r].step.messages > 0, ranks > 1);
        if (r == 0 || r + 1 == measured.size())
          fmt::print("  {:<12} {:>5} {:>5} {:>10} {:>16} {:>12}\n", kind.name, ranks, r,
                     report.in_flight[r], measured[r].buffer_bytes,
                     measured[r].activations - measured[r].boundary_bytes);
      }
    }
}

TEST(PipelineMemory, OfAnActivationBufferIsWhatItsLayersKeep) {
  const SessionOptions options = pipeline_session(ScheduleKind::one_f_one_b, 4, 1, 4);
  const std::vector<PipelineMemory> measured = measure_pipeline(options);
  const std::int64_t layer =
      total_bytes(layer_activations(model_spec(options.model).layers.front(), options.model.dtype,
                                    options.recompute, options.parallel, options.shape));
  EXPECT_EQ(measured[1].buffer_bytes, 4 * layer) << "four layers, no embedding and no head";
}

}  // namespace
}  // namespace tessera
