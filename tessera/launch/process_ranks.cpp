#include "tessera/launch/process_ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/comm/mpi.h"
#include "tessera/comm/nccl.h"
#include "tessera/launch/compare.h"
#include "tessera/launch/cores.h"
#include "tessera/launch/failure.h"
#include "tessera/launch/lifeline.h"
#include "tessera/launch/rendezvous.h"

namespace tessera {
namespace {

Device device_of(const LaunchOptions& options, const Environment& environment) {
  if (options.device == DeviceKind::cpu) return {};
  check_input(nccl_built(), "this program was built without NCCL, by which GPUs communicate");
  const int gpus = cuda_device_count();
  check_input(gpus > 0, "{}", why_no_cuda());
  return {DeviceKind::cuda, gpu_of_rank(environment, gpus, process_variable)};
}

// Rank 0's bytes on every rank; all know how many.
std::vector<std::byte> broadcast_bytes(Communicator& world, std::vector<std::byte> bytes) {
  Stream stream{Device{}};
  auto count = static_cast<std::int64_t>(bytes.size());
  world.broadcast(View(&count, DType::i64, {1}), 0, stream)->wait(stream);
  bytes.resize(static_cast<std::size_t>(count));
  world.broadcast(View(bytes.data(), DType::u8, {count}), 0, stream)->wait(stream);
  return bytes;
}

std::shared_ptr<Communicator> world_over_mpi(MpiWorld& mpi, Device device,
                                             std::chrono::seconds timeout) {
  std::shared_ptr<Communicator> world = mpi.communicator();
  if (device.kind == DeviceKind::cpu) return world;
  const std::vector<std::byte> id =
      broadcast_bytes(*world, mpi.rank() == 0 ? make_nccl_id() : std::vector<std::byte>{});
  return make_nccl_world(device, mpi.rank(), mpi.size(), id, timeout);
}

[[noreturn]] void end_process(const std::exception& error) {
  const int code = report_failure(error);
  std::fflush(nullptr);
  std::_Exit(code);
}

// MPI watches over its processes; these get a lifeline instead.
std::shared_ptr<Communicator> world_by_rendezvous(const Environment& environment, Device device,
                                                  std::chrono::seconds timeout,
                                                  std::optional<Lifeline>& lifeline) {
  if (environment.rank == 0 && environment.secret_is_weak)
    log_warning(
        "others on this network could take a rank's place: start torchrun with --rdzv-id, or set "
        "TESSERA_RENDEZVOUS_SECRET to the same random text for all ranks");
  const RendezvousOptions options{environment.address, environment.port,   environment.rank,
                                  environment.size,    environment.secret, timeout};
  RendezvousResult met =
      rendezvous(options, environment.rank == 0 ? make_nccl_id() : std::vector<std::byte>{});
  lifeline.emplace(std::move(met.connections), Lifeline::Options{},
                   [](const std::string& reason) { end_process(Error(reason)); });
  return make_nccl_world(device, environment.rank, environment.size, met.data, timeout);
}

// Deals out the cores that processes of a machine share. A launcher may have done it already: then
// none are shared.
void settle_on_cores(Rank& rank, int threads_wanted) {
  const Cores cores;
  const std::vector<std::string> places =
      gather_texts(*rank.world, machine_name() + " " + cores.to_string(), rank.device);
  const CoreShare share = share_of_place(places, rank.rank);
  rank.threads = threads_wanted > 0 ? threads_wanted : default_threads(share.count);
  const std::string problem = cores.pin(share, Cores::Scope::process);
  if (!problem.empty() && share.index == 0) log_warning("ranks are not tied to cores: {}", problem);
}

void run_rank(Rank& rank, const LaunchOptions& options, const std::function<void(Rank&)>& body) {
  compare_across(*rank.world, "build", build_description(), rank.device);
  compare_across(*rank.world, "configuration", options.configuration, rank.device);
  settle_on_cores(rank, options.threads);
  body(rank);
}

Rank rank_of(MpiWorld& mpi, const LaunchOptions& options, const Environment& environment) {
  check_input(mpi.size() == environment.size,
              "{} started {} ranks, but MPI reports {}. With srun, start them with --mpi=pmix (and "
              "an Open MPI that has PMIx), or use mpirun",
              to_string(environment.launcher), environment.size, mpi.size());
  // Launchers need not say how many ranks they started on this machine, but MPI knows.
  Environment here = environment;
  here.local_size = std::max(environment.local_size, mpi.local_size());
  const Device device = device_of(options, here);
  return {mpi.rank(),       mpi.size(), 1, world_over_mpi(mpi, device, options.timeout),
          mpi.local_rank(), device};
}

}  // namespace

int gpu_of_rank(const Environment& environment, int gpus, const Variables& variables) {
  // A launcher that shows each rank one GPU has chosen it.
  const bool chosen = gpus == 1 && variables("CUDA_VISIBLE_DEVICES").has_value();
  check_input(chosen || environment.local_size <= gpus,
              "{} started {} ranks on this machine, which has {} GPU(s) to use: NCCL needs one for "
              "each. Start fewer, or start them as threads of one process, which can share a GPU",
              to_string(environment.launcher), environment.local_size, gpus);
  return environment.local_rank % gpus;
}

int run_mpi_rank(const LaunchOptions& options, const Environment& environment,
                 const std::function<void(Rank&)>& body) {
  MpiWorld::Options limits;
  limits.call_timeout = options.timeout;
  MpiWorld mpi(limits);
  Rank rank;
  try {
    rank = rank_of(mpi, options, environment);
    run_rank(rank, options, body);
  } catch (const std::exception& error) {
    if (exit_code_of(error) == 2) wait_for_lower_ranks(mpi.rank());
    mpi.abort(error.what(), exit_code_of(error));
  }
  return 0;
}

// A failed rank ends its process at once, as under MPI: its part of the world could wait for others
// for ever, and torchrun ends those when it sees the exit code.
int run_torchrun_rank(const LaunchOptions& options, const Environment& environment,
                      const std::function<void(Rank&)>& body) {
  std::optional<Lifeline> lifeline;
  Rank rank;
  try {
    const Device device = device_of(options, environment);
    rank = {environment.rank,
            environment.size,
            1,
            world_by_rendezvous(environment, device, options.timeout, lifeline),
            environment.local_rank,
            device};
    run_rank(rank, options, body);
  } catch (const std::exception& error) {
    end_process(error);
  }
  return 0;
}

}  // namespace tessera
