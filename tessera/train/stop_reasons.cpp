#include "tessera/train/stop_reasons.h"

#include <algorithm>

#include "tessera/base/log.h"
#include "tessera/launch/environment.h"

namespace tessera {
namespace {

// Beside signals, a reason to stop.
constexpr double kTimeIsUp = 1000;
// What saving may take of a job's time: five minutes, or a tenth of a short job.
std::chrono::system_clock::time_point last_moment(std::chrono::system_clock::time_point end) {
  using namespace std::chrono;
  const auto left = std::max(end - system_clock::now(), system_clock::duration::zero());
  return end - std::min<system_clock::duration>(minutes(5), left / 10);
}

}  // namespace

StopReasons::StopReasons(const Rank& rank, const TrainOptions& options,
                         std::chrono::steady_clock::time_point begun)
    : signals_(rank.signals) {
  if (rank.rank > 0) return;
  if (options.exit_duration_minutes > 0)
    end_ = begun + std::chrono::minutes(options.exit_duration_minutes);
  const std::optional<std::string> text = process_variable("SLURM_JOB_END_TIME");
  if (!text || text->empty()) return;
  const auto end = job_end(process_variable);
  if (end && *end > std::chrono::system_clock::now())
    job_end_ = last_moment(*end);
  else
    log_warning("SLURM_JOB_END_TIME '{}' is {}: it is ignored", *text,
                end ? "over already" : "no second since 1970");
}

double StopReasons::now() const {
  if (signals_ != nullptr && signals_->received() != 0) return signals_->received();
  const bool over = end_ && Clock::now() > *end_;
  const bool job_ends = job_end_ && std::chrono::system_clock::now() > *job_end_;
  return over || job_ends ? kTimeIsUp : 0;
}

std::string StopReasons::text(double reason) {
  if (reason == kTimeIsUp) return "time is up";
  // What comes from the program that started the ranks may have been another one there.
  return signal(reason) == SIGUSR2 ? "a signal" : SignalWatch::signal_name(signal(reason));
}

int StopReasons::signal(double reason) {
  return reason == kTimeIsUp ? 0 : static_cast<int>(reason);
}

}  // namespace tessera
