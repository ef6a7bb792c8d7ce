#include <fmt/core.h>

#include <cstdio>

#include "apps/commands.h"
#include "bench/data_parallel.h"
#include "bench/layer_traffic.h"
#include "bench/peak.h"
#include "bench/program.h"
#include "bench/train_bench.h"
#include "tessera/base/check.h"
#include "tessera/launch/launch.h"
#include "tessera/observe/trace_file.h"
#include "tessera/observe/trace_tables.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostSteps = 100'000;

void print_result(bench::TrainBench& bench, const bench::StepTimes& times, double peak_tflops,
                  int ranks) {
  const double milliseconds = bench::median(times.step);
  const double per_second = 1e3 / milliseconds;
  const double tflops = bench.flops_per_step() * per_second / 1e12;
  const std::string utilisation =
      peak_tflops > 0
          ? fmt::format("{:.1f} % of {:.0f} TFLOP/s", 100 * tflops / peak_tflops, peak_tflops)
          : "unknown: give --peak-tflops";
  fmt::print("step time      {:.2f} ms\n", milliseconds);
  fmt::print("tokens/s       {:.0f}\n", bench.tokens_per_step() * per_second);
  fmt::print("model TFLOP/s  {:.2f}\n", tflops);
  fmt::print("MFU            {}\n", utilisation);
  fmt::print("memory         {:.2f} GiB{}\n",
             static_cast<double>(bench.memory().total()) / (1 << 30),
             ranks > 1 ? " of rank 0" : "");
  fmt::print("loss           {:.4f}\n", bench.loss());
  if (!times.exposed.empty())
    fmt::print("exposed communication  {:.2f} ms/step, the mean of the ranks\n",
               bench::median(times.exposed));
}

void profile(bench::TrainBench& bench, const std::string& file, int rank) {
  constexpr std::int64_t kSteps = 3;
  const std::vector<TraceEvent> events = bench.trace(kSteps);
  if (rank > 0) return;
  write_trace(file, events, 0, bench.trace_start());
  fmt::print("\n{} more steps, one call at a time; their trace is in '{}'\n{}", kSteps, file,
             trace_tables(events, kSteps));
}

// What the device could do at best; 0 when nobody knows: then the user may say it.
double peak_tflops(const bench::Flags& flags, Device device, DType dtype) {
  if (!flags.text("peak-tflops").empty()) return flags.real("peak-tflops", 1e6, "TFLOP/s");
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  if (device.kind == DeviceKind::cpu || !half) return 0;
  return bench::find_peak_tflops(cuda_device_name(device.index));
}

std::string described(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : cuda_device_name(device.index);
}

DType dtype_of(const bench::Flags& flags) {
  const std::string& name = flags.text("params-dtype");
  check_input(!name.empty() + flags.on("bf16") + flags.on("fp16") <= 1,
              "--params-dtype, --bf16 and --fp16 exclude each other: give one of them");
  if (flags.on("bf16")) return DType::bf16;
  if (flags.on("fp16")) return DType::f16;
  return name.empty() ? DType::f32 : bench::dtype_from(name);
}

bool deterministic_of(const bench::Flags& flags, Device device) {
  check_input(!flags.on("deterministic-mode") || device.kind == DeviceKind::cuda,
              "--deterministic-mode has no effect: it belongs to --device cuda (results on a CPU "
              "are always reproducible)");
  return flags.on("deterministic-mode");
}

// The kinds of context parallelism: bytes per layer.
void bench_context_communication() {
  constexpr std::int64_t kHidden = 64, kSeq = 64;
  fmt::print(
      "\nKiB that a rank sends for attention of one layer, forward and backward (f32, h = {}, "
      "{} tokens, 8 query heads)\n{:>6} {:>9} {:<12} {:>10} {:>10}\n",
      kHidden, kSeq, "ranks", "kv heads", "kind", "counted", "formula");
  for (const int ranks : {2, 4, 8})
    for (const std::int64_t groups : {8, 2})
      for (const CpCommType kind : enumerators<CpCommType>()) {
        const bool copies = kind == CpCommType::a2a && groups < ranks;  // it moves more
        if (copies || (kind == CpCommType::a2a_p2p && ranks == 2)) continue;
        const bench::LayerTraffic traffic =
            bench::context_parallel(kind, ranks, groups, kHidden, kSeq, 1);
        fmt::print("{:>6} {:>9} {:<12} {:>10.1f} {:>10.1f}\n", ranks, groups, to_string(kind),
                   traffic.counted / 1024, traffic.formula / 1024);
      }
}

// 1-D and 2-D tensor parallelism: bytes per layer.
void bench_tensor_communication() {
  constexpr std::int64_t kHidden = 72;  // four and nine ranks divide it
  constexpr std::int64_t kSizes[] = {1, 2, 4, 8, 12, 16, 24};
  fmt::print("KiB that a rank sends for one GPT layer, forward and backward (f32, h = {})\n",
             kHidden);
  for (const int side : {2, 3}) {
    const int ranks = side * side;
    fmt::print("\n{} ranks        1-D                   2-D, {} x {}\n", ranks, side, side);
    fmt::print("{:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "tokens/h", "counted", "formula",
               "counted", "formula", "norms");
    for (const std::int64_t size : kSizes) {
      const std::int64_t seq = size * kHidden / side;
      const bench::LayerTraffic one_d = bench::one_dimensional(ranks, kHidden, seq, side);
      const bench::LayerTraffic two_d = bench::two_dimensional(side, kHidden, seq, side);
      fmt::print("{:>10} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}{}\n", size,
                 one_d.counted / 1024, one_d.formula / 1024, two_d.counted / 1024,
                 two_d.formula / 1024, two_d.beside / 1024,
                 two_d.counted < one_d.counted ? "  2-D moves less" : "");
    }
    fmt::print("2-D moves less from {:.1f} h tokens on\n", bench::two_dimensional_pays_from(side));
  }
}

void bench_communication(const std::vector<std::string>& args) {
  if (args.size() == 1 && args[0] == "--help")
    return fmt::print("usage: tessera bench communication: bytes that a layer moves, no flags\n");
  check_input(args.empty(), "unknown flag '{}': tessera bench communication takes no flags",
              args.empty() ? "" : args[0]);
  bench_tensor_communication();
  bench_context_communication();
}

// Where train has the same option, it has the same name.
std::vector<bench::FlagInfo> train_flags() {
  std::vector<bench::FlagInfo> flags{
      {"config", "gpt2-124m-t256", "the model; a wrong name lists all"},
      {"micro-batch-size", "4", "samples of a step"},
      {"device", "cpu", "cpu or cuda"},
      {"params-dtype", "", "f64, f32, bf16 or f16 [f32]"},
      {"bf16", "false", "the same as --params-dtype bf16"},
      {"fp16", "false", "the same as --params-dtype f16"},
      {"threads", std::to_string(default_threads(1)), "CPU threads"},
      {"warm-up", "5", "steps before those that are timed"},
      {"steps", "30", "steps that are timed; the median is reported"},
      {"peak-tflops", "", "of the device, for MFU [in bf16 and f16: that of GPUs that are known]"},
      {"deterministic-mode", "false",
       "equal bits on a GPU; refused on a CPU, which always has them"},
      {"profile", "", "FILE: record three more steps as a trace"},
  };
  for (bench::FlagInfo& flag : bench::data_parallel_flags()) flags.push_back(std::move(flag));
  return flags;
}

struct TrainRun {
  bench::Workload work;
  bench::TrainBenchOptions options;
  double peak_tflops = 0;
  std::int64_t warm_up = 0, steps = 0;
  std::string trace;  // a file
};

TrainRun train_run(const bench::Flags& flags, Device device) {
  TrainRun run;
  run.trace = flags.text("profile");
  if (!run.trace.empty()) check_trace_place(run.trace);
  run.work = bench::workload(flags.text("config"),
                             flags.number("micro-batch-size", bench::kMostMicroBatch));
  run.options = {dtype_of(flags), deterministic_of(flags, device),
                 bench::data_parallel_options(flags)};
  run.peak_tflops = peak_tflops(flags, device, run.options.dtype);
  run.warm_up = flags.number("warm-up", kMostSteps);
  run.steps = flags.number("steps", kMostSteps);
  return run;
}

void bench_train_on(const Rank& rank, const TrainRun& run) {
  bench::TrainBench bench(run.work, run.options, rank);
  if (rank.rank == 0) {
    fmt::print("{}, {} x {} tokens, {}, {}{}\n", run.work.name, run.work.micro_batch * rank.size,
               run.work.seq, to_string(run.options.dtype), described(rank.device),
               rank.size == 1 ? "" : ", " + bench::described(run.options.parallel, rank));
    std::fflush(stdout);  // what follows takes a while
    if (!run.trace.empty()) bench.check_can_trace();
  }
  bench.run(run.warm_up);
  const bench::StepTimes times = bench.run(run.steps);
  if (rank.rank == 0) print_result(bench, times, run.peak_tflops, rank.size);
  if (!run.trace.empty()) profile(bench, run.trace, rank.rank);
}

void bench_train(const std::vector<std::string>& args) {
  const bench::Flags flags(args, train_flags());
  if (flags.help())
    return fmt::print("usage: tessera bench train [flags]; with their defaults they are:{}\n",
                      flags.list());
  const Device device = bench::device_from(flags.text("device"));
  const TrainRun run = train_run(flags, device);
  bench::on_ranks(flags, device, [&](Rank& rank) { bench_train_on(rank, run); });
}

}  // namespace

void bench_command(const std::vector<std::string>& args) {
  const std::string usage = "usage: tessera bench train|communication [flags]";
  if (!args.empty() && args[0] == "--help")
    return fmt::print(
        "{}\n  train           times steps of a known model on random tokens, on data-parallel "
        "ranks\n"
        "  communication   counts the bytes that a layer moves with tensor and context "
        "parallelism\n"
        "tessera bench train --help lists its flags.\n",
        usage);
  check_input(!args.empty() && (args[0] == "train" || args[0] == "communication"), "{}", usage);
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  args[0] == "train" ? bench_train(rest) : bench_communication(rest);
}

}  // namespace tessera
