#include <fmt/core.h>

#include <cstdio>

#include "apps/commands.h"
#include "bench/program.h"
#include "bench/train_bench.h"
#include "tessera/base/check.h"
#include "tessera/launch/launch.h"
#include "tessera/train/trace_file.h"
#include "tessera/train/trace_tables.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostSteps = 100'000;

void print_result(bench::TrainBench& bench, double milliseconds, double peak_tflops) {
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
  fmt::print("memory         {:.2f} GiB\n",
             static_cast<double>(bench.memory().total()) / (1 << 30));
  fmt::print("loss           {:.4f}\n", bench.loss());
}

void profile(bench::TrainBench& bench, const std::string& file) {
  constexpr std::int64_t kSteps = 3;
  const std::vector<TraceEvent> events = bench.trace(kSteps);
  write_trace(file, events, 0);
  fmt::print("\n{} more steps, one call at a time; their trace is in '{}'\n{}", kSteps, file,
             trace_tables(events, kSteps));
}

// What the device could do at best; 0 when nobody knows. 989 TFLOP/s is what one H100 or H200
// multiplies in dense bf16 or f16, by its maker's word; for another GPU the user says it.
double peak_tflops(const bench::Flags& flags, Device device, DType dtype) {
  if (!flags.text("peak-tflops").empty()) return flags.real("peak-tflops", 1e6, "TFLOP/s");
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  return device.kind == DeviceKind::cuda && half ? 989 : 0;
}

}  // namespace

void bench_command(const std::vector<std::string>& args) {
  const std::string usage = "usage: tessera bench train [flags]";
  if (!args.empty() && args[0] == "--help") return fmt::print("{}\n", usage);
  check_input(!args.empty() && args[0] == "train", "{}", usage);
  const bench::Flags flags({args.begin() + 1, args.end()},
                           {{"config", "gpt2-124m-t256"},
                            {"micro-batch", "4"},
                            {"device", "cpu"},
                            {"dtype", "f32"},
                            {"threads", std::to_string(default_threads(1))},
                            {"warm-up", "5"},
                            {"steps", "30"},
                            {"peak-tflops", ""},
                            {"deterministic", "no"},
                            {"profile", ""}});
  if (flags.help()) return fmt::print("{}; with their defaults they are:{}\n", usage, flags.list());
  const std::string trace = flags.text("profile");
  if (!trace.empty()) check_trace_place(trace);
  const bench::Workload work =
      bench::workload(flags.text("config"), flags.number("micro-batch", bench::kMostMicroBatch));
  const Device device = bench::device_from(flags.text("device"));
  const DType dtype = bench::dtype_from(flags.text("dtype"));
  const double peak = peak_tflops(flags, device, dtype);
  const std::string& deterministic = flags.text("deterministic");
  check_input(deterministic == "yes" || deterministic == "no",
              "--deterministic must be yes or no, got '{}'", deterministic);
  bench::TrainBench bench(work, device, dtype, flags.threads(), deterministic == "yes");
  fmt::print("{}, {} x {} tokens, {}, {}\n", work.name, work.micro_batch, work.seq,
             flags.text("dtype"), to_string(device));
  std::fflush(stdout);  // what follows takes a while
  if (!trace.empty()) bench.check_can_trace();
  bench.run(flags.number("warm-up", kMostSteps));
  print_result(bench, bench::median(bench.run(flags.number("steps", kMostSteps))), peak);
  if (!trace.empty()) profile(bench, trace);
}

}  // namespace tessera
