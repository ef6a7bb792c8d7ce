#include <fmt/core.h>

#include <atomic>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "apps/rank_start.h"
#include "tessera/base/log.h"
#include "tessera/config/print.h"
#include "tessera/parallel/mesh_picture.h"
#include "tessera/spec/parameter_table.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

// What the ranks are, and by what they communicate: "4 ranks (threads, shared memory), ".
std::string described(const Options& options, const Rank& rank, const Environment& environment) {
  if (rank.size == 1) return "";
  const bool threads = environment.launcher == Launcher::none;
  const bool own = options.parallel.launch == LaunchKind::processes;  // started by this program
  const char* by = threads                                ? "shared memory"
                   : rank.device.kind == DeviceKind::cuda ? "NCCL"
                                                          : "MPI";
  return fmt::format("{} ranks ({}, {}), ", rank.size,
                     threads ? "threads"
                     : own   ? "processes"
                             : to_string(environment.launcher),
                     by);
}

void announce(const Options& options, const Rank& rank, const Environment& environment) {
  if (rank.rank > 0) return;
  const bool gpu = rank.device.kind == DeviceKind::cuda;
  log_info("tessera {}: {} parameters in {}{}, {}{} thread(s){}, global batch {} x {} tokens",
           TESSERA_VERSION, static_cast<std::int64_t>(parameter_count(model_spec(options.model))),
           to_string(options.model.dtype), gpu ? " on " + cuda_device_name(rank.device.index) : "",
           described(options, rank, environment), rank.threads, rank.size > 1 ? " per rank" : "",
           options.train.global_batch_size, options.data.seq_length);
  if (rank.size > 1)
    log_info("{}", mesh_banner(options.parallel, rank.size, schedule_title(options.pipeline)));
}

}  // namespace

int train_command(ParsedCommand& parsed, const std::vector<std::string>& arguments) {
  const Environment environment = recognise_environment(process_variable);
  const ModelSource source(parsed, apply_launcher_environment(parsed, environment));
  const Options& options = parsed.options;
  const std::string config = print_config(options);
  if (parsed.print_config) {
    fmt::print("{}", print_config(parsed));
    return 0;
  }
  check_parameters(session_options(options, true));
  std::atomic<int> signal = 0;
  const int code = run_on_ranks(options, config, arguments, [&](Rank& rank) {
    announce(options, rank, environment);
    Trainer trainer(options, config, rank);
    signal = trainer.run();
  });
  return code == 0 && signal != 0 ? SignalWatch::exit_code_saved(signal) : code;
}

}  // namespace tessera
