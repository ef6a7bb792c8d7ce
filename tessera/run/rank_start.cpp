#include "tessera/run/rank_start.h"

#include <chrono>

#include "tessera/engine/session_options.h"

namespace tessera {

std::optional<int> apply_launcher_environment(ParsedCommand& parsed,
                                              const Environment& environment) {
  if (environment.launcher == Launcher::none) return std::nullopt;
  leave_start_to_launcher(parsed, environment.size);
  return environment.size;
}

int run_on_ranks(const Options& options, const std::string& config,
                 const std::vector<std::string>& arguments,
                 const std::function<void(Rank&)>& body) {
  LaunchOptions launch_options;
  launch_options.nproc = options.parallel.nproc;
  launch_options.processes = options.parallel.launch == LaunchKind::processes;
  launch_options.device = device_of(options.train).kind;
  launch_options.threads = options.train.threads;
  launch_options.timeout = std::chrono::minutes(options.parallel.timeout_minutes);
  launch_options.configuration = config;
  launch_options.watch_signals = !options.train.save.empty();  // there is something to save
  return launch(launch_options, arguments, body);
}

}  // namespace tessera
