#include "tessera/spec/batch_schedule.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "tessera/base/check.h"
#include "tessera/options/limits.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostSteps = 1 << 16;

// "200B" is 200e9; the suffixes are K, M, B and T.
double threshold(const std::string& text, const std::string& step) {
  std::size_t read = 0;
  double value = -1;
  try {
    value = std::stod(text, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  std::string suffix = text.substr(read);
  constexpr std::string_view kSuffixes = "KMBT";
  if (read > 0 && suffix.size() == 1 && kSuffixes.find(suffix[0]) != kSuffixes.npos) {
    value *= std::pow(1000, static_cast<double>(kSuffixes.find(suffix[0]) + 1));
    suffix.clear();
  }
  check_input(read > 0 && suffix.empty() && value >= 0 && value <= 1e18,
              "--step-batch-size-schedule: '{}' in '{}' is no number of tokens such as 0, 500M or "
              "1.5B",
              text, step);
  return value;
}

std::int64_t batch_size(const std::string& text, const std::string& step) {
  const bool digits = !text.empty() && text.size() < 10 &&
                      std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  const std::int64_t size = digits ? std::stoll(text) : 0;
  check_input(size > 0 && size <= kMaxBatch,
              "--step-batch-size-schedule: '{}' in '{}' is no batch size from 1 to {}", text, step,
              kMaxBatch);
  return size;
}

std::vector<BatchSchedule::Step> by_thresholds(const std::string& schedule,
                                               std::int64_t seq_length) {
  std::vector<BatchSchedule::Step> steps;
  std::istringstream words(schedule);
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':');
    check_input(colon != std::string::npos,
                "--step-batch-size-schedule: expected TOKENS:SIZE, got '{}'", word);
    const double tokens = threshold(word.substr(0, colon), word);
    const auto from = static_cast<std::int64_t>(tokens) / std::max<std::int64_t>(seq_length, 1);
    check_input(steps.empty() ? from == 0 : from > steps.back().from,
                "--step-batch-size-schedule: the first step begins at 0 tokens, and every other "
                "one after the one before it; '{}' does not",
                word);
    steps.push_back({from, batch_size(word.substr(colon + 1), word)});
  }
  check_input(!steps.empty(), "--step-batch-size-schedule is empty: expected TOKENS:SIZE ...");
  return steps;
}

// START INCREMENT SAMPLES: the size rises evenly over these samples.
std::vector<BatchSchedule::Step> by_ramp(const std::vector<std::int64_t>& ramp, std::int64_t last) {
  check_input(ramp.size() == 3,
              "--rampup-batch-size has {} values: expected START INCREMENT SAMPLES", ramp.size());
  const std::int64_t first = ramp[0], increment = ramp[1], samples = ramp[2];
  check_input(
      last > first && (last - first) % increment == 0,
      "--rampup-batch-size {} {} {}: --global-batch-size {} is not reached from {} in steps "
      "of {}",
      first, increment, samples, last, first, increment);
  const std::int64_t count = (last - first) / increment;
  check_input(count <= kMostSteps, "--rampup-batch-size has {} steps: give at most {}", count,
              kMostSteps);
  std::vector<BatchSchedule::Step> steps;
  for (std::int64_t k = 0; k <= count; ++k) {
    const double from =
        static_cast<double>(k) * static_cast<double>(samples) / static_cast<double>(count);
    steps.push_back({static_cast<std::int64_t>(std::ceil(from)), first + k * increment});
  }
  return steps;
}

}  // namespace

BatchSchedule::BatchSchedule(const TrainOptions& train, std::int64_t seq_length) {
  if (!train.step_batch_size_schedule.empty())
    steps_ = by_thresholds(train.step_batch_size_schedule, seq_length);
  else if (!train.rampup_batch_size.empty())
    steps_ = by_ramp(train.rampup_batch_size, train.global_batch_size);
  else
    steps_ = {{0, train.global_batch_size}};
}

std::int64_t BatchSchedule::size_at(std::int64_t consumed) const {
  const auto after = std::ranges::upper_bound(steps_, consumed, {}, &Step::from);
  return std::prev(after)->size;
}

std::int64_t BatchSchedule::largest() const {
  return std::ranges::max_element(steps_, {}, &Step::size)->size;
}

BatchSchedule::Length BatchSchedule::length(std::int64_t consumed, std::int64_t end) const {
  Length all;
  for (std::size_t i = 0; i < steps_.size() && consumed < end; ++i) {
    const bool last = i + 1 == steps_.size();
    if (!last && steps_[i + 1].from <= consumed) continue;
    const std::int64_t size = steps_[i].size;
    const std::int64_t until = last ? end : std::min(end, steps_[i + 1].from);
    // The batch that crosses into the next step still has this size, if it is whole.
    std::int64_t batches =
        last || until == end ? (until - consumed) / size : (until - consumed + size - 1) / size;
    if (consumed + batches * size > end) --batches;
    all.iterations += batches;
    all.samples += batches * size;
    consumed += batches * size;
    if (consumed + size > end && consumed < until) break;
  }
  return all;
}

std::int64_t BatchSchedule::samples(std::int64_t consumed, std::int64_t iterations) const {
  const std::int64_t begin = consumed;
  for (std::size_t i = 0; i < steps_.size() && iterations > 0; ++i) {
    const bool last = i + 1 == steps_.size();
    if (!last && steps_[i + 1].from <= consumed) continue;
    const std::int64_t size = steps_[i].size;
    const std::int64_t batches =
        last ? iterations : std::min(iterations, (steps_[i + 1].from - consumed + size - 1) / size);
    consumed += batches * size;
    iterations -= batches;
  }
  return consumed - begin;
}

}  // namespace tessera
