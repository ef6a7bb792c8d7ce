// Metrics and where they go: the text of the log and of the live line, the keys of metrics.jsonl.
#include "tessera/observe/metrics.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>

#include "tessera/base/json.h"
#include "tessera/observe/jsonl_sink.h"
#include "tessera/observe/live_line_sink.h"
#include "tessera/observe/reporter.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

StepMetrics step_metrics(std::int64_t iteration, double loss = 2.5, double seconds = 0.25,
                         bool skipped = false) {
  StepMetrics step{iteration, 100, 8, {}};
  step.metrics.add("consumed_samples", "samples", iteration * 8);
  step.metrics.add("lm_loss", kLossUnit, loss);
  step.metrics.add("learning_rate", "", 3e-3);
  step.metrics.add("grad_norm", "", 0.42);
  step.metrics.add("loss_scale", "", 1.0);
  step.metrics.add("skipped", "", skipped);
  step.metrics.add("seconds", "s", seconds);
  step.metrics.add("data_wait", "s", 0.001);
  step.metrics.add("tokens_per_second", "tokens/s", 51300.0);
  step.metrics.add("tflops", "TFLOP/s", 12.5);
  return step;
}

EvaluationMetrics evaluation_metrics(const std::string& split, const std::string& set) {
  EvaluationMetrics evaluation{10, split, set, {}};
  evaluation.metrics.add("loss", kLossUnit, 0.5);
  evaluation.metrics.add("ppl", "", std::exp(0.5));
  return evaluation;
}

class MetricSinks : public testing::Test {
 protected:
  MetricSinks() { options_.log_interval = 2; }

  // What the log has after these steps, without the time in front.
  std::string log_of(const std::vector<StepMetrics>& steps) const {
    testing::internal::CaptureStderr();
    Reporter reporter(true);
    reporter.open(options_, 0);
    for (const StepMetrics& step : steps) reporter.step(step);
    const std::string text = testing::internal::GetCapturedStderr();
    const std::size_t at = text.find("] ");
    return at == std::string::npos ? text : text.substr(at + 2);
  }

  std::vector<Json> lines_of(const fs::path& path) const {
    std::vector<Json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  test::TempFolder temp_;
  TrainOptions options_;
};

TEST_F(MetricSinks, LogLinesHaveMegatronsFieldsAndMeansOfTheInterval) {
  const StepMetrics skipped = step_metrics(1, 3.5, 0.75, true);
  StepMetrics last = step_metrics(2);
  last.metrics.add("longest_data_wait", "s", 0.0123);
  EXPECT_EQ(
      log_of({skipped, last}),
      " iteration        2/     100 | consumed samples:           16 | elapsed time per "
      "iteration (ms): 500.0 | learning rate: 3.000000E-03 | global batch size:     8 | lm "
      "loss: 3.000000E+00 | loss scale: 1.0 | grad norm: 0.420 | number of skipped iterations:"
      "   1 | number of nan iterations:   0 | data wait (ms): 12.3 |\n");
  EXPECT_EQ(log_of({step_metrics(1)}), "");
}

// Steps that went on without the check for NaN: their losses are counted, but in no mean.
TEST_F(MetricSinks, LossesThatAreNotFiniteAreCounted) {
  const std::string line = log_of({step_metrics(1, std::nan(""), 0.25, true), step_metrics(2)});
  EXPECT_NE(line.find(" | lm loss: 2.500000E+00 |"), std::string::npos) << line;
  EXPECT_NE(line.find("skipped iterations:   1 | number of nan iterations:   1 |"),
            std::string::npos)
      << line;
}

TEST_F(MetricSinks, ThroughputIsLoggedOnRequest) {
  options_.log_throughput = true;
  EXPECT_NE(log_of({step_metrics(1), step_metrics(2)})
                .find(" (ms): 250.0 | throughput per GPU (TFLOP/s/GPU): 12.500 | learning rate:"),
            std::string::npos);
}

TEST_F(MetricSinks, FurtherLossesAppearByTheirNames) {
  options_.metrics_file = temp_ / "metrics.jsonl";
  std::vector<StepMetrics> steps{step_metrics(1), step_metrics(2)};
  steps[0].metrics.add("load_balancing_loss", kLossUnit, 1.0);
  steps[1].metrics.add("load_balancing_loss", kLossUnit, 2.0);
  EXPECT_NE(log_of(steps).find(
                " | lm loss: 2.500000E+00 | load_balancing_loss: 1.500000E+00 | loss scale: "),
            std::string::npos);
  EXPECT_EQ(lines_of(temp_ / "metrics.jsonl").at(1).at("load_balancing_loss"), 2.0);
}

TEST_F(MetricSinks, LayersHaveLinesOfTheirOwn) {
  options_.metrics_file = temp_ / "metrics.jsonl";
  std::vector<StepMetrics> steps{step_metrics(1), step_metrics(2)};
  steps[1].layers = {{3, {}}, {11, {}}};
  for (LayerMetrics& layer : steps[1].layers) {
    layer.metrics.add("z_loss", kLossUnit, 2.0);
    layer.metrics.add("expert_imbalance", "", 1.5);
    layer.metrics.add("expert_entropy", "", 0.875);
    layer.metrics.add("expert_dropped", "", layer.layer == 3 ? 0.0 : 0.0125);
  }
  const std::string log = log_of(steps);
  for (const char* line :
       {" layer    3 | z_loss: 2.000000E+00 | expert tokens max/mean: 1.50 | entropy: 0.8750 |\n",
        " layer   11 | z_loss: 2.000000E+00 | expert tokens max/mean: 1.50 | entropy: 0.8750 | "
        "dropped: 1.25 % |\n"})
    EXPECT_NE(log.find(line), std::string::npos) << log;
  const std::vector<Json> lines = lines_of(temp_ / "metrics.jsonl");
  EXPECT_FALSE(lines.at(0).contains("layers"));
  EXPECT_EQ(lines.at(1)["layers"][1].dump(),
            R"({"expert_dropped":0.0125,"expert_entropy":0.875,"expert_imbalance":1.5,)"
            R"("layer":11,"z_loss":2.0})");
}

TEST_F(MetricSinks, UnevenWorkOfContextRanksIsLogged) {
  std::vector<StepMetrics> steps{step_metrics(1), step_metrics(2)};
  steps[0].metrics.add("context_imbalance", "", 1.5);
  steps[1].metrics.add("context_imbalance", "", 1.25);
  EXPECT_NE(log_of(steps).find(" | context work max/mean: 1.38 |"), std::string::npos);
}

TEST_F(MetricSinks, JsonLinesHaveAKeyForEachMetric) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  {
    JsonlSink sink(temp_ / "metrics.jsonl", 0);
    StepMetrics step = step_metrics(1, nan);
    step.metrics.add("longest_data_wait", "s", 0.5);
    sink.step(step);
    sink.evaluation(evaluation_metrics("valid", ""));
    sink.evaluation(evaluation_metrics("test", "a"));
  }
  std::vector<Json> lines = lines_of(temp_ / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_GT(lines[0]["time"], 0.0);
  lines[0].erase("time");
  EXPECT_EQ(lines[0].dump(),
            R"({"consumed_samples":8,"data_wait":0.001,"grad_norm":0.42,"iteration":1,)"
            R"("learning_rate":0.003,"lm_loss":null,"loss_scale":1.0,"seconds":0.25,)"
            R"("skipped":false,"tflops":12.5,"tokens_per_second":51300.0})");
  EXPECT_EQ(lines[1].dump(), R"({"iteration":10,"valid_loss":0.5,"valid_ppl":1.6487212707001282})");
  EXPECT_EQ(lines[2].dump(),
            R"({"iteration":10,"set":"a","test_set_loss":0.5,"test_set_ppl":1.6487212707001282})");
}

TEST_F(MetricSinks, EvaluationsAreLogged) {
  testing::internal::CaptureStderr();
  Reporter reporter(true);
  reporter.open(options_, 0);
  reporter.evaluation(evaluation_metrics("valid", ""));
  reporter.evaluation(evaluation_metrics("test", "a"));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("] validation loss at iteration 10: 5.000000E-01 | PPL: 1.648721E+00\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("] test loss of a at iteration 10: 5.000000E-01 | PPL: 1.648721E+00\n"),
            std::string::npos)
      << text;
}

TEST_F(MetricSinks, OtherRanksSayNothing) {
  options_.metrics_file = temp_ / "metrics.jsonl";
  testing::internal::CaptureStderr();
  Reporter reporter(false);
  reporter.open(options_, 0);
  reporter.message("hello");
  reporter.step(step_metrics(2));
  reporter.evaluation(evaluation_metrics("valid", ""));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(fs::exists(temp_ / "metrics.jsonl"));
}

TEST_F(MetricSinks, TheLiveLineFitsItsTerminal) {
  const StepMetrics step = step_metrics(50);
  const std::string text =
      "step 50/100  loss 2.5000  lr 3.00e-03  grad 0.420  51.3k tok/s  ETA 0:13";
  EXPECT_EQ(format_live_line(step, 200),
            "[" + std::string(15, '#') + std::string(15, '.') + "] " + text);
  EXPECT_EQ(format_live_line(step, 21), text.substr(0, 20));
}

// Files may not grow beyond a limit, as on a full disk.
TEST_F(MetricSinks, ADiskWithoutRoomStopsNoRun) {
  const fs::path path = temp_ / "metrics.jsonl";
  JsonlSink sink(path, 0);
  sink.step(step_metrics(1));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{fs::file_size(path) * 5 / 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  for (std::int64_t i = 2; i <= 5; ++i) sink.step(step_metrics(i));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  sink.step(step_metrics(6));
  const std::vector<Json> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 3u);  // two, and none in part
  EXPECT_EQ(lines.front()["iteration"], 1);
  EXPECT_EQ(lines.back()["iteration"], 6);
}

}  // namespace
}  // namespace tessera
