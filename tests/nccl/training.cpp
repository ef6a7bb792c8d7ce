#include "tests/nccl/training.h"

#include <gtest/gtest.h>

#include <utility>

#include "tessera/base/enumerators.h"
#include "tests/train/session_run.h"

namespace tessera::test {
namespace {

struct Case {
  std::string name;
  Sharding sharding = Sharding::none;
  int instances = 1;
  bool overlap = true;
  int tensor = 1;
  bool offload = false;
  int pipeline = 1;
  ScheduleKind schedule = ScheduleKind::automatic;
  int chunks = 1;
  int expert = 1;
  int context = 1;
  std::vector<CpCommType> kinds = {CpCommType::p2p};
  TokenDispatcher dispatcher = TokenDispatcher::alltoall;
};

constexpr int kLayers = 8;

// GPT has a table for both ends of a pipeline. With experts, rounding would send tokens to others.
SessionOptions alone(const Case& c, int ranks, Device device) {
  SessionOptions options = c.expert > 1 ? wide_session("moe", device, DType::f64)
                                        : wide_session("gpt", device, DType::f32);
  options.microbatches = 2 * ranks;
  options.model.num_layers = kLayers;
  return options;
}

SessionOptions spread(const Case& c, int ranks, Device device) {
  SessionOptions options = alone(c, ranks, device);
  ParallelOptions& p = options.parallel;
  p.tensor = c.tensor;
  p.sequence_parallel = c.tensor > 1;
  p.pipeline = c.pipeline;
  p.expert = c.expert;
  p.token_dispatcher = c.dispatcher;
  p.context = c.context;
  p.cp_comm_types = c.kinds;
  if (c.context == 4) p.hierarchical_context = {2, 2};
  p.data = ranks / c.tensor / c.pipeline / c.context;
  options.pipeline.schedule = c.schedule;
  options.pipeline.chunks = c.chunks;
  p.sharding = c.sharding;
  p.sharding_instances = c.instances;
  p.overlap_grad_reduce = p.overlap_param_gather = c.overlap;
  p.bucket_elements = 100'000;
  options.microbatches /= p.data;
  options.optimizer.cpu_offload = c.offload;
  return options;
}

// Losses of steps, which become graphs, and of evaluations between them.
std::vector<double> losses_of(const SessionOptions& options, const Rank& rank) {
  Session session(options, rank);
  const double rate = 1e-3;
  session.optimizer().set_rates(session.context(), std::span(&rate, 1));
  std::int64_t sample = session.context().mesh.data().rank() * options.shape.batch;
  HostBatch batch;
  const auto next = [&]() -> const HostBatch& {
    batch = random_batch(options.shape, options.model.vocab_size, sample);
    sample += options.shape.batch * options.parallel.data;
    return batch;
  };
  Steps steps(session, LossAverage::per_microbatch);
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) {
    for (int step = 0; step < 3; ++step) steps.submit(next);
    for (const StepRecord& record : steps.collect()) losses.push_back(record.loss);
    losses.push_back(evaluate_step(session, next, LossAverage::per_microbatch).loss);
  }
  return losses;
}

class NcclTraining : public ::testing::Test {
 public:
  NcclTraining(std::shared_ptr<Communicator> world, Device device, Case c)
      : world_(std::move(world)), device_(device), case_(std::move(c)) {}
  void TestBody() override {
    const int ranks = world_->size();
    Rank rank{world_->rank(), ranks, 1, world_};
    const std::vector<double> got = losses_of(spread(case_, ranks, device_), rank);
    const std::vector<double> want =
        losses_of(alone(case_, ranks, device_), {0, 1, 1, make_self_communicator()});
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * want[i]) << i;
  }

 private:
  std::shared_ptr<Communicator> world_;
  Device device_;
  Case case_;
};

std::vector<Case> pipelines(int ranks) {
  const auto pipeline = [](const char* name, int size, ScheduleKind schedule, int chunks = 1,
                           int tensor = 1, Sharding sharding = Sharding::none) {
    return Case{name, sharding, 1, true, tensor, false, size, schedule, chunks};
  };
  std::vector<Case> cases{pipeline("GPipe", ranks, ScheduleKind::gpipe),
                          pipeline("OneFOneB", ranks, ScheduleKind::one_f_one_b),
                          pipeline("Interleaved", ranks, ScheduleKind::interleaved, 2),
                          pipeline("ZeroBubbleH1", ranks, ScheduleKind::zb_h1),
                          pipeline("ZeroBubbleV", ranks, ScheduleKind::zb_v, 2)};
  if (ranks != 4) return cases;
  cases.push_back(pipeline("PipelineOfTensorPairs", 2, ScheduleKind::one_f_one_b, 1, 2));
  cases.push_back(
      pipeline("PipelineAndDataParallel", 2, ScheduleKind::zb_v, 2, 1, Sharding::parameters));
  return cases;
}

}  // namespace

void register_nccl_trainings(std::shared_ptr<Communicator> world, Device device) {
  std::vector<Case> cases{{"Unsharded"},
                          {"ShardedOptimizer", Sharding::optimizer},
                          {"ShardedOptimizerInTurn", Sharding::optimizer, 1, false},
                          {"ShardedGradients", Sharding::gradients},
                          {"ShardedParameters", Sharding::parameters},
                          {"OnTheHost", Sharding::parameters, 1, true, 1, true}};
  if (world->size() % 2 == 0) {
    cases.push_back({"TwoGroups", Sharding::parameters, 2});
    cases.push_back({"TensorParallelPairs", Sharding::parameters, 1, true, 2});
  }
  for (const TokenDispatcher dispatcher : enumerators<TokenDispatcher>())
    cases.push_back({.name = "Experts_" + std::string(to_string(dispatcher)),
                     .sharding = Sharding::optimizer,
                     .expert = world->size(),
                     .dispatcher = dispatcher});
  if (world->size() == 4)
    cases.push_back({.name = "CopiesOfExpertsOnTensorPairs",
                     .sharding = Sharding::parameters,
                     .tensor = 2,
                     .expert = 2});
  for (const auto& [name, kind] : {std::pair("ContextRing", CpCommType::p2p),
                                   {"ContextAllGather", CpCommType::all_gather},
                                   {"ContextHeads", CpCommType::a2a},
                                   {"ContextHeadsAndRing", CpCommType::a2a_p2p}}) {
    const int ranks = kind == CpCommType::a2a ? 2 : world->size();  // the model has two heads
    if (kind == CpCommType::a2a_p2p && ranks != 4) continue;
    cases.push_back({.name = name, .context = ranks, .kinds = {kind}});
  }
  for (const Case& each : pipelines(world->size())) cases.push_back(each);
  for (const Case& each : cases)
    ::testing::RegisterTest("NcclTraining", each.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [world, device, each]() -> ::testing::Test* {
                              return new NcclTraining(world, device, each);
                            });
}

}  // namespace tessera::test
