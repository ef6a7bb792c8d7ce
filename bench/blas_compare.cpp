// bench_blas: which BLAS library suits Tessera. The matrix products of a training step, by each
// installed library, in the three ways that Tessera could call it with T threads:
//   own    one rank, the library's own T threads
//   ranks  T ranks as threads of one process, each a whole product on one thread, all at once
//   tiles  one rank, the product cut into T tiles as the kernels do, each a call on one thread
#include <fmt/core.h>

#include <barrier>
#include <thread>

#include "bench/blas_library.h"
#include "bench/products.h"
#include "bench/program.h"
#include "tessera/base/check.h"
#include "tessera/kernels/cpu/parallel.h"
#include "tessera/kernels/cpu/tiling.h"
#include "tessera/launch/launch.h"

namespace tessera::bench {
namespace {

// The operands of one product.
class Operands {
 public:
  explicit Operands(const Product& p)
      : a_(elements(p.m, p.k), 0.5f), b_(elements(p.k, p.n), 0.25f), c_(elements(p.m, p.n), 0.0f) {
    call_ = {p.transpose_a,
             p.transpose_b,
             p.m,
             p.n,
             p.k,
             a_.data(),
             p.transpose_a ? p.m : p.k,
             b_.data(),
             p.transpose_b ? p.k : p.n,
             p.accumulate ? 1.0f : 0.0f,
             c_.data(),
             p.n};
  }
  const Sgemm& call() const { return call_; }

 private:
  static std::size_t elements(std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns);
  }
  std::vector<float> a_, b_, c_;
  Sgemm call_;
};

double own_threads(const BlasLibrary& library, const Product& product, int threads,
                   double seconds) {
  const Operands operands(product);
  library.set_threads(threads);
  return median_seconds(seconds, [&] { library.sgemm(operands.call()); });
}

// Seconds until all ranks have made one product each. They start together every 20 ms or so: more
// often, and one would measure how the system wakes threads.
double many_ranks(const BlasLibrary& library, const Product& product, int ranks, double seconds) {
  const int repeats = 1 + static_cast<int>(4e9 / product.flops());
  std::barrier gate(ranks + 1);
  bool done = false;  // read by the ranks after the gate that follows its writing
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&] {
      const Operands operands(product);
      library.set_threads(1);
      while (true) {
        gate.arrive_and_wait();
        if (done) return;
        for (int i = 0; i < repeats; ++i) library.sgemm(operands.call());
        gate.arrive_and_wait();
      }
    });
  const double result = median_seconds(seconds, [&] {
    gate.arrive_and_wait();
    gate.arrive_and_wait();
  });
  done = true;
  gate.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  return result / repeats;
}

// The part of a product that fills a rectangle of c.
Sgemm tile_of(const Sgemm& whole, const cpu::Tile& part) {
  Sgemm tile = whole;
  tile.m = part.rows;
  tile.n = part.columns;
  tile.a += whole.transpose_a ? part.row : part.row * whole.a_stride;
  tile.b += whole.transpose_b ? part.column * whole.b_stride : part.column;
  tile.c += part.row * whole.c_stride + part.column;
  return tile;
}

std::vector<Sgemm> tiles_of(const Sgemm& whole, int threads) {
  const cpu::Tiling tiling(whole.m, whole.n, whole.k, threads);
  std::vector<Sgemm> tiles;
  for (std::int64_t i = 0; i < tiling.count(); ++i) tiles.push_back(tile_of(whole, tiling[i]));
  return tiles;
}

double tiled(const BlasLibrary& library, const Product& product, int threads, double seconds) {
  const Operands operands(product);
  const std::vector<Sgemm> tiles = tiles_of(operands.call(), threads);
  library.set_threads(1);
  return median_seconds(seconds, [&] {
    cpu::parallel_for(threads, static_cast<std::int64_t>(tiles.size()), [&](std::int64_t i) {
      library.set_threads(1);
      library.sgemm(tiles[static_cast<std::size_t>(i)]);
    });
  });
}

void print_workload(const std::vector<BlasLibrary>& libraries, const Workload& workload,
                    int threads, double seconds) {
  fmt::print("\n{}, micro-batch {}: GFLOP/s with {} thread(s)\n{:<51}", workload.name,
             workload.micro_batch, threads, "");
  for (const BlasLibrary& library : libraries) fmt::print(" | {:>23}", library.name);
  fmt::print("\n{:<26}{:>7}{:>7}{:>7}{:>4}", "product", "m", "n", "k", "op");
  for (std::size_t i = 0; i < libraries.size(); ++i)
    fmt::print(" | {:>7} {:>7} {:>7}", "own", "ranks", "tiles");
  std::vector<StepTotal> totals(3 * libraries.size());
  for (const Product& p : products_of(workload)) {
    fmt::print("\n{:<26}{:>7}{:>7}{:>7}{:>4}", p.name, p.m, p.n, p.k, p.op());
    auto total = totals.begin();
    for (const BlasLibrary& library : libraries) {
      fmt::print(" |");
      for (const double each : {own_threads(library, p, threads, seconds),
                                many_ranks(library, p, threads, seconds) / threads,
                                tiled(library, p, threads, seconds)}) {
        fmt::print(" {:>7.1f}", p.flops() / each / 1e9);
        (total++)->add(p, each);
      }
    }
    std::fflush(stdout);
  }
  fmt::print("\n{:<51}", "all of a step");
  for (std::size_t i = 0; i < totals.size(); ++i)
    fmt::print("{} {:>7.1f}", i % 3 == 0 ? " |" : "", totals[i].gflops());
  fmt::print("\n");
}

void run(const Flags& flags) {
  const std::vector<Workload> all = workloads(flags.text("configs"));
  const std::vector<BlasLibrary> libraries = load_blas_libraries();
  check(!libraries.empty(), "there is no library to compare");
  for (const Workload& workload : all)
    print_workload(libraries, workload, flags.threads(), flags.seconds("seconds"));
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::run_program(argc, argv,
                                     {{"configs", "gpt2-124m-t256:4,llama-60m:4"},
                                      {"threads", std::to_string(tessera::default_threads(1))},
                                      {"seconds", "0.3"}},
                                     tessera::bench::run);
}
