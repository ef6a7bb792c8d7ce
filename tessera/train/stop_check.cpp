#include "tessera/train/stop_check.h"

#include <algorithm>

namespace tessera {
namespace {

// Until the next check, in iterations. About once a second: on a GPU it waits for the device.
double check_distance(Device device, double step_seconds) {
  constexpr double kSeconds = 1.0;
  constexpr double kMost = Optimizer::kRecords * 0.5;
  if (device.kind == DeviceKind::cpu || step_seconds == 0) return 1;
  return std::clamp(kSeconds / step_seconds, 1.0, kMost);
}

}  // namespace

StopCheck::StopCheck(Session& session, const Rank& rank, const TrainOptions& options,
                     std::chrono::steady_clock::time_point begun, Saver* saver, Reporter& reporter)
    : session_(session),
      saver_(saver),
      reporter_(reporter),
      sets_pace_(rank.rank == 0),
      ranks_(session),
      reasons_(rank, options, begun) {}

void StopCheck::run(std::int64_t iteration, double step_seconds) {
  const double distance = check_distance(session_.options().device, step_seconds);
  const bool writing = saver_ && saver_->busy();
  const auto [stop, busy, next] =
      ranks_.largest({reasons_.now(), writing ? 1.0 : 0.0, sets_pace_ ? distance : 0});
  next_ = iteration + static_cast<std::int64_t>(next);
  if (saver_ && saver_->pending() && busy == 0) saver_->advance();
  if (stop == 0 || stop_ != 0) return;
  stop_ = stop;
  reporter_.message(fmt::format("{}: the run stops at iteration {}{}", StopReasons::text(stop),
                                iteration, saver_ ? " and saves" : ""));
}

}  // namespace tessera
