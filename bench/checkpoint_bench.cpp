// bench_checkpoint: what saving beside training costs. Trains a known model on random tokens, saves
// it again and again in the background, and prints how long training was held up by each save,
// beside the time that copying the state takes and that of a step.
#include <fmt/core.h>

#include <thread>

#include "bench/program.h"
#include "bench/train_bench.h"
#include "tessera/base/check.h"
#include "tessera/checkpoint/saving/saver.h"

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMs = 1e3;
constexpr double kGb = 1e9;

// Bytes a second of checksums, on one core, out of memory.
double digest_rate() {
  std::vector<std::byte> bytes(std::size_t{256} << 20, std::byte{7});
  const double seconds = median_seconds(1.0, [&] {
    BlockDigests digests;
    digests.add(bytes.data(), bytes.size());
    digests.finish();
  });
  return static_cast<double>(bytes.size()) / seconds;
}

// Of a copy of the state to the memory of the host, with nobody who writes.
double copy_seconds(Session& session, std::int64_t limit) {
  Staging staging(session, true, {limit}, true);
  std::vector<double> times;
  for (int i = 0; i < 6; ++i) {
    staging.reset();
    std::thread writer([&] { staging.drain([](std::size_t, const ConstView&) {}); });
    const auto start = Clock::now();
    staging.fill();
    times.push_back(seconds_since(start));
    writer.join();
  }
  times.erase(times.begin());  // the first allocates
  return median(times);
}

struct Held {
  std::vector<double> inside;  ///< seconds that training stood still, by save
  std::vector<double> steps;   ///< milliseconds of steps while a save was under way
  std::vector<double> saving;  ///< seconds from request to commit
};

Held save_often(TrainBench& bench, Saver& saver, std::int64_t saves) {
  Held held;
  for (std::int64_t i = 1; i <= saves; ++i) {
    const auto begun = Clock::now();
    saver.request({i, "{}", {{kConfigFile, "# of a benchmark\n"}}});
    double inside = seconds_since(begun);
    while (saver.pending()) {
      for (const double ms : bench.run(1).step) held.steps.push_back(ms);
      if (saver.busy()) continue;
      const auto start = Clock::now();
      saver.advance();
      inside += seconds_since(start);
    }
    check(saver.committed() == i, "save {} failed", i);
    held.inside.push_back(inside);
    held.saving.push_back(seconds_since(begun));
    bench.run(2);
  }
  return held;
}

void measure(const Flags& flags) {
  const Device device = device_from(flags.text("device"));
  Rank rank{0, 1, flags.threads(), make_self_communicator(), 0, device};
  TrainBenchOptions options;
  options.dtype = dtype_from(flags.text("dtype"));
  TrainBench bench(
      workload(flags.text("config"), flags.number("micro-batch-size", kMostMicroBatch)), options,
      rank);
  bench.run(5);
  const double step = median(bench.run(10).step) / kMs;
  const std::int64_t limit = flags.number("staging-mib", 1 << 30) << 20;
  const fs::path folder = flags.text("folder");
  Saver saver(bench.session(), {folder, true, true, limit, {2, 0}},
              [](const std::string& text) { fmt::print("{}\n", text); });
  const double copy = copy_seconds(bench.session(), limit);
  const Held held = save_often(bench, saver, flags.number("saves", 10'000));
  const double worst = *std::max_element(held.inside.begin(), held.inside.end());
  const Staging staging(bench.session(), true, {limit}, true);
  double bytes = 0;
  for (const StagedSlice& slice : staging.slices())
    bytes += static_cast<double>(slice.kept.piece.extent.numel()) *
             static_cast<double>(element_size(slice.block.memory.dtype()));
  fmt::print("\n| what | value |\n|---|---|\n");
  fmt::print("| state | {:.2f} GB |\n", bytes / kGb);
  fmt::print("| staging memory | {:.2f} GB |\n", static_cast<double>(staging.capacity()) / kGb);
  fmt::print("| step | {:.2f} ms |\n", step * kMs);
  fmt::print("| copy of the state | {:.2f} ms, {:.1f} GB/s |\n", copy * kMs, bytes / copy / kGb);
  fmt::print("| held up by a save, median of {} | {:.2f} ms |\n", held.inside.size(),
             median(held.inside) * kMs);
  fmt::print("| held up by a save, most | {:.2f} ms |\n", worst * kMs);
  fmt::print("| copy + 5 % of a step | {:.2f} ms |\n", (copy + 0.05 * step) * kMs);
  fmt::print("| from request to commit | {:.2f} s |\n", median(held.saving));
  fmt::print("| step beside a save | {:.2f} ms |\n", median(held.steps));
  fmt::print("| checksums | {:.1f} GB/s per core |\n", digest_rate() / kGb);
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;
  return run_program(argc, argv,
                     {{"config", "gpt2-124m-t256", "a model of configs.json"},
                      {"micro-batch-size", "1", "samples of a step"},
                      {"device", "cpu", "cpu or cuda"},
                      {"dtype", "f32", "f32, bf16 or f16"},
                      {"threads", "2", "of the CPU"},
                      {"saves", "20", "how many"},
                      {"staging-mib", "65536", "memory for copies, at most"},
                      {"folder", "bench_checkpoints", "where to save"}},
                     measure);
}
