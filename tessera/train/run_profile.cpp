#include "tessera/train/run_profile.h"

#include <string>

#include "tessera/base/log.h"

namespace tessera {

RunProfile::RunProfile(Session& session, const TrainOptions& options, int rank,
                       std::int64_t iteration, Reporter& reporter)
    : options_(options), first_(rank == 0), reporter_(reporter) {
  if (!is_profiled(options, rank)) return;
  profile_.emplace(*session.context().trace, options, rank);
  if (const std::string why = profile_->why_never(options, iteration); !why.empty())
    log_warning("--profile will record nothing: {}", why);
}

bool RunProfile::start_if_due(std::int64_t iteration) {
  return profile_ && profile_->start_if_due(iteration);
}

bool RunProfile::some_rank_records(std::int64_t iteration) const {
  return options_.profile && iteration >= options_.profile_step_start &&
         iteration < options_.profile_step_end;
}

bool RunProfile::at_edge(std::int64_t iteration) const {
  return profile_ && profile_->at_edge(iteration);
}

void RunProfile::finish(std::int64_t iteration, bool last) {
  if (!profile_) return;
  const std::string text = profile_->stop_if_due(iteration, last);
  if (text.empty()) return;
  if (first_)
    reporter_.message(text);
  else
    log_info("{}", text);
}

}  // namespace tessera
