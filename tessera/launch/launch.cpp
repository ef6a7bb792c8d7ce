#include "tessera/launch/launch.h"

#include <sched.h>

#include <algorithm>
#include <optional>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/launch/cores.h"
#include "tessera/launch/mpirun.h"
#include "tessera/launch/process_ranks.h"
#include "tessera/launch/thread_ranks.h"

namespace tessera {
namespace {

int launch_threads(const LaunchOptions& options, const std::function<void(Rank&)>& body) {
  const Cores cores;
  keep_openmp_from_tying_threads();
  const int threads = options.threads > 0 ? options.threads : default_threads(options.nproc);
  run_thread_ranks(options.nproc, threads, options.timeout, [&](Rank& rank) {
    const std::string problem = cores.pin({rank.rank, rank.size}, Cores::Scope::thread);
    if (!problem.empty() && rank.rank == 0) log_warning("ranks are not tied to cores: {}", problem);
    rank.device = {options.device, 0};  // one GPU for all
    body(rank);
  });
  return 0;
}

int launch_alone(const LaunchOptions& options, const std::function<void(Rank&)>& body) {
  Rank only;
  only.threads = options.threads > 0 ? options.threads : default_threads(1);
  only.world = make_self_communicator();
  only.device = {options.device, 0};
  body(only);
  return 0;
}

}  // namespace

LaunchWay choose_way(const LaunchOptions& options, const Environment& environment) {
  check_input(options.nproc >= 1, "--nproc must be at least 1, got {}", options.nproc);
  if (environment.launcher == Launcher::none) {
    if (options.nproc == 1) return LaunchWay::alone;
    return options.processes ? LaunchWay::mpirun : LaunchWay::threads;
  }
  const std::string launcher = to_string(environment.launcher);
  check_input(options.nproc == 1 || options.nproc == environment.size,
              "--nproc {}, but {} started {} ranks: drop --nproc, or start the program without {}",
              options.nproc, launcher, environment.size, launcher);
  if (environment.size == 1) return LaunchWay::alone;
  if (environment.launcher != Launcher::torchrun) return LaunchWay::mpi;
  check_input(options.device == DeviceKind::cuda,
              "torchrun started {} ranks, but its ranks can only communicate between GPUs. On CPUs "
              "start them with mpirun -n {}, with srun, or without a launcher and with --nproc {}",
              environment.size, environment.size, environment.size);
  return LaunchWay::rendezvous;
}

int launch(const LaunchOptions& options, const std::vector<std::string>& arguments,
           const std::function<void(Rank&)>& body) {
  const Environment environment = recognise_environment(process_variable);
  const LaunchWay way = choose_way(options, environment);
  if (way == LaunchWay::mpirun)
    return run_with_mpirun(options.nproc, arguments, options.watch_signals);
  std::optional<SignalWatch> signals;  // before there is a second thread
  if (options.watch_signals) signals.emplace();
  const auto watched_body = [&](Rank& rank) {
    if (signals) rank.signals = &*signals;
    body(rank);
  };
  switch (way) {
    case LaunchWay::alone: return launch_alone(options, watched_body);
    case LaunchWay::threads: return launch_threads(options, watched_body);
    case LaunchWay::mpi: return run_mpi_rank(options, environment, watched_body);
    case LaunchWay::rendezvous: return run_torchrun_rank(options, environment, watched_body);
    case LaunchWay::mpirun: break;
  }
  return 1;
}

int default_threads(int ranks) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, cores / std::max(1, ranks));
}

}  // namespace tessera
