#include "tessera/run/training_run.h"

#include <fmt/core.h>

#include <atomic>

#include "tessera/base/log.h"
#include "tessera/config/print.h"
#include "tessera/observe/callback_sink.h"
#include "tessera/parallel/mesh_picture.h"
#include "tessera/run/model_source.h"
#include "tessera/run/rank_start.h"
#include "tessera/run/train.h"
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

}  // namespace

TrainingRun::TrainingRun(ParsedCommand& parsed)
    : environment_(recognise_environment(process_variable)), parsed_(parsed) {
  ModelSource(parsed, apply_launcher_environment(parsed, environment_));
}

void TrainingRun::announce(const Rank& rank) const {
  if (rank.rank > 0) return;
  log_notes(parsed_.notes);
  const Options& options = parsed_.options;
  const bool gpu = rank.device.kind == DeviceKind::cuda;
  log_info("tessera {}: {} parameters in {}{}, {}{} thread(s){}, global batch {} x {} tokens",
           TESSERA_VERSION, static_cast<std::int64_t>(parameter_count(model_spec(options.model))),
           to_string(options.model.dtype), gpu ? " on " + cuda_device_name(rank.device.index) : "",
           described(options, rank, environment_), rank.threads, rank.size > 1 ? " per rank" : "",
           options.train.global_batch_size, options.data.seq_length);
  if (rank.size > 1)
    log_info("{}", mesh_banner(options.parallel, rank.size, schedule_title(options.pipeline)));
}

int TrainingRun::start(const std::vector<std::string>& arguments,
                       const MetricCallbacks& callbacks) const {
  const Options& options = parsed_.options;
  const std::string config = print_config(options);
  check_parameters(session_options(options, true));
  std::atomic<int> signal = 0;
  const int code = run_on_ranks(options, config, arguments, [&](Rank& rank) {
    announce(rank);
    Trainer trainer(options, config, rank);
    trainer.report_to(std::make_unique<CallbackSink>(callbacks));
    signal = trainer.run();
  });
  return code == 0 && signal != 0 ? SignalWatch::exit_code_saved(signal) : code;
}

Options train_options(std::span<const std::string> flags) {
  return parse_command("train", flags).options;
}

int train(const Options& options, const MetricCallbacks& callbacks,
          const std::vector<std::string>& arguments) {
  ParsedCommand parsed{default_settings(Command::train), Command::train, {}};
  parsed.options = options;
  return TrainingRun(parsed).start(arguments, callbacks);
}

}  // namespace tessera
