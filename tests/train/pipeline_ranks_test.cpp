// Whole runs over pipelines: they train, evaluate and write text as one rank does, and checkpoints
// go on in any layout.
#include <gtest/gtest.h>

#include "tessera/infer/evaluate.h"
#include "tessera/infer/generate.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using test::losses_of;

constexpr std::int64_t kIterations = 8;

struct PipelineLayout {
  int pipeline = 1;
  int tensor = 1;
  int data = 1;
  ScheduleKind schedule = ScheduleKind::automatic;
  int virtual_stages = 0;
};

Options pipeline_rank_options(const fs::path& folder, const PipelineLayout& layout) {
  Options options = test::ranks_options(folder, kIterations);
  ParallelOptions& p = options.parallel;
  p.pipeline = layout.pipeline;
  p.tensor = layout.tensor;
  p.nproc = layout.pipeline * layout.tensor * layout.data;
  p.distributed_optimizer = layout.data > 1;
  options.pipeline.schedule = layout.schedule;
  options.pipeline.virtual_stages = layout.virtual_stages;
  resolve(options);
  return options;
}

TEST(PipelineRanks, TrainAndEvaluateAsOneDoes) {
  const test::TempFolder temp;
  test::run(pipeline_rank_options(temp / "one", {}));
  const std::vector<double> want = losses_of(temp / "one");
  int number = 0;
  for (const PipelineLayout& layout :
       std::vector<PipelineLayout>{{2, 2, 1, ScheduleKind::automatic, 2},
                                   {2, 1, 2, ScheduleKind::zb_v},
                                   {4, 1, 1, ScheduleKind::zb_h1}}) {
    const fs::path folder = temp / std::to_string(number++);
    test::run(pipeline_rank_options(folder, layout));
    const std::vector<double> got = losses_of(folder);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * want[i]) << i;
  }
}

// A part of a run in each of four layouts.
TEST(PipelineRanks, GoOnInAnotherLayout) {
  const test::TempFolder temp;
  test::run(pipeline_rank_options(temp / "whole", {}));
  const auto part = [&](const PipelineLayout& layout, std::int64_t end) {
    Options options = pipeline_rank_options(temp / "parts", layout);
    options.train.save_interval = end;
    options.train.exit_interval = end;
    options.train.load = (temp / "parts").string();
    test::run(options);
  };
  part({2, 1, 2, ScheduleKind::automatic, 2}, 2);
  part({4, 1, 1, ScheduleKind::zb_h1}, 4);
  part({1, 2, 1}, 6);
  part({2, 2, 1, ScheduleKind::zb_v}, kIterations);
  const double got = losses_of(temp / "parts").back(), want = losses_of(temp / "whole").back();
  EXPECT_NEAR(got, want, 1e-5 * want);
}

// ---- a model that is used

SessionOptions inference(const PipelineLayout& layout, const BatchShape& shape) {
  SessionOptions options = test::tiny_session("gpt");
  options.model.dtype = DType::f64;
  options.training = false;
  options.shape = shape;
  options.parallel.pipeline = layout.pipeline;
  options.parallel.tensor = layout.tensor;
  options.pipeline.chunks = std::max(1, layout.virtual_stages);
  return options;
}

const std::vector<PipelineLayout> kUsed{{1, 2}, {2, 1}, {2, 2}, {4, 1}, {2, 2, 1, {}, 2}};

// What the last rank gets; all get the same.
template <class Body>
auto on_ranks(const PipelineLayout& layout, const Body& body) {
  decltype(body(std::declval<Rank&>())) result;
  const int ranks = layout.pipeline * layout.tensor;
  run_ranks(ranks, 1, [&](Rank& rank) {
    auto mine = body(rank);
    if (rank.rank == ranks - 1) result = std::move(mine);
  });
  return result;
}

TEST(PipelineRanks, GenerateWhatOneDoes) {
  const std::vector<std::int32_t> prompt{5, 17, 3, 42};
  for (const bool greedy : {true, false}) {
    const auto text = [&](const PipelineLayout& layout) {
      return on_ranks(layout, [&](Rank& rank) {
        Session session(inference(layout, {4, 1}), rank);
        GenerateOptions options;
        options.greedy = greedy;
        options.max_new_tokens = 12;
        // The last rows of the table have no token.
        Generator generator(session, options, 1, session.options().model.vocab_size - 3);
        return generator.run(prompt, {}, [](std::int32_t) {});
      });
    };
    const std::vector<std::int32_t> want = text({});
    EXPECT_EQ(want.size(), 12u);
    for (const PipelineLayout& layout : kUsed)
      EXPECT_EQ(text(layout), want) << layout.pipeline << " x " << layout.tensor;
  }
}

TEST(PipelineRanks, EvaluateWhatOneDoes) {
  const std::vector<std::vector<std::int32_t>> sequences{{1, 2, 3, 4}, {9, 8, 7}, {4, 4}};
  const auto losses = [&](const PipelineLayout& layout) {
    const std::string lines = on_ranks(layout, [&](Rank& rank) {
      Session session(inference(layout, {3, 2}), rank);
      return evaluate_sequences(session, sequences);
    });
    std::vector<double> values;
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) {
      const Json json = Json::parse(line);
      for (const Json& value : json["token_logprobs"]) values.push_back(value);
    }
    return values;
  };
  const std::vector<double> want = losses({});
  EXPECT_EQ(want.size(), 6u);
  for (const PipelineLayout& layout : kUsed) {
    const std::vector<double> got = losses(layout);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
  }
}

}  // namespace
}  // namespace tessera
