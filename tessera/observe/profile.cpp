#include "tessera/observe/profile.h"

#include <fmt/core.h>

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/observe/trace_file.h"
#include "tessera/observe/trace_tables.h"

namespace tessera {

std::string profile_file(const TrainOptions& options) {
  if (!options.profile) return "";
  if (!options.profile_file.empty()) return options.profile_file;
  return options.save.empty() ? "profile.json" : options.save + "/profile.json";
}

std::string profile_file(const TrainOptions& options, int rank) {
  std::string file = profile_file(options);
  if (rank == 0) return file;
  const fs::path path(file);
  return (path.parent_path() /
          fmt::format("{}.rank{}{}", path.stem().string(), rank, path.extension().string()))
      .string();
}

bool is_profiled(const TrainOptions& options, int rank) {
  return options.profile && std::ranges::count(options.profile_ranks, rank) > 0;
}

void check_profiled_ranks(const TrainOptions& options, const Rank& rank) {
  const bool one_gpu = options.device == DeviceChoice::cuda && rank.process_ranks > 1;
  check_input(!options.profile || !one_gpu || options.profile_ranks.size() == 1,
              "--profile-ranks names {} ranks, but they are threads of one process and share its "
              "GPU, which can be recorded for one of them: name one rank, or start the ranks as "
              "processes (--launch processes) with a GPU each",
              options.profile_ranks.size());
}

StepProfile::StepProfile(Trace& trace, const TrainOptions& options, int rank)
    : trace_(trace),
      file_(profile_file(options, rank)),
      rank_(rank),
      start_(options.profile_step_start),
      end_(options.profile_step_end) {
  trace.check_can_record();
}

std::string StepProfile::why_never(const TrainOptions& options, std::int64_t iteration) const {
  if (iteration >= end_)
    return fmt::format("--profile-step-end {} was reached before, by iteration {}", end_,
                       iteration);
  const std::int64_t interval = options.exit_interval;
  const std::int64_t stops = interval > 0 ? (iteration / interval + 1) * interval : end_;
  if (stops > start_) return "";
  return fmt::format("--exit-interval {} ends the run at iteration {}, --profile-step-start is {}",
                     interval, stops, start_);
}

bool StepProfile::start_if_due(std::int64_t iteration) {
  if (trace_.recording() || iteration < start_ || iteration >= end_) return false;
  trace_.start();
  began_ = iteration;
  return true;
}

std::string StepProfile::stop_if_due(std::int64_t iteration, bool last) {
  constexpr std::size_t kMostKernels = 15;
  if (!trace_.recording() || (iteration < end_ && !last)) return "";
  const std::vector<TraceEvent> events = trace_.stop();
  write_trace(file_, events, rank_, trace_.start_time());
  const std::int64_t steps = iteration - began_;
  return fmt::format(
      "wrote the trace of iterations {} to {} to '{}' (open it in https://ui.perfetto.dev)\n{}",
      began_ + 1, iteration, file_, trace_tables(events, steps, kMostKernels));
}

}  // namespace tessera
