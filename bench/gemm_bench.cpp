// bench_gemm: the matrix products of a training step through Kernels::gemm, against the machine's
// multiply-add peak.
#include <fmt/core.h>

#include "bench/fma_peak.h"
#include "bench/products.h"
#include "bench/program.h"
#include "tessera/kernels/kernels.h"
#include "tessera/launch/launch.h"
#include "tessera/tensor/memory.h"

namespace tessera::bench {
namespace {

class GemmBench {
 public:
  GemmBench(int threads, double seconds)
      : memory_(Device{}),
        stream_(Device{}),
        kernels_(make_kernels(Device{}, threads)),
        seconds_(seconds) {}

  double measure(const Product& p) {
    const Tensor d = matrix(p.m, p.n);
    const Tensor a = p.transpose_a ? matrix(p.k, p.m) : matrix(p.m, p.k);
    const Tensor b = p.transpose_b ? matrix(p.n, p.k) : matrix(p.k, p.n);
    GemmSpec spec;
    spec.transpose_a = p.transpose_a;
    spec.transpose_b = p.transpose_b;
    spec.accumulate = p.accumulate;
    return median_seconds(seconds_, [&] {
      kernels_->gemm(stream_, d, ConstView(a.view()), ConstView(b.view()), spec);
    });
  }

 private:
  Tensor matrix(std::int64_t rows, std::int64_t columns) {
    Tensor x = memory_.allocate(MemoryUse::data, DType::f32, {rows, columns});
    kernels_->random_normal(stream_, x, 1, {rows, columns}, {0, 0}, 0.0, 1.0);
    return x;
  }

  Memory memory_;
  Stream stream_;
  std::unique_ptr<Kernels> kernels_;
  double seconds_;
};

struct Result {
  Product product;
  double seconds;
};

std::vector<Result> measure_all(GemmBench& bench, const Workload& workload) {
  std::vector<Result> results;
  for (const Product& product : products_of(workload))
    results.push_back({product, bench.measure(product)});
  return results;
}

void print_results(const Workload& workload, const std::vector<Result>& results, double peak) {
  fmt::print("\n{}, micro-batch {}\n", workload.name, workload.micro_batch);
  fmt::print("{:<26}{:>7}{:>7}{:>7}{:>4}{:>6}{:>10}{:>10}{:>8}\n", "product", "m", "n", "k", "op",
             "count", "ms", "GFLOP/s", "% peak");
  StepTotal total;
  for (const auto& [p, seconds] : results) {
    const double rate = p.flops() / seconds;
    total.add(p, seconds);
    fmt::print("{:<26}{:>7}{:>7}{:>7}{:>4}{:>6.4g}{:>10.3f}{:>10.1f}{:>8.1f}\n", p.name, p.m, p.n,
               p.k, p.op(), p.per_step, seconds * 1e3, rate / 1e9, 100 * rate / peak);
  }
  fmt::print("{:<57}{:>10.1f}{:>10.1f}{:>8.1f}\n", "all of a step", total.seconds * 1e3,
             total.gflops(), 100e9 * total.gflops() / peak);
}

void run(const Flags& flags) {
  const int threads = flags.threads();
  const std::vector<Workload> all = workloads(flags.text("configs"));
  GemmBench bench(threads, flags.seconds("seconds"));
  // Before and after, since a peak taken in a busy moment would flatter the kernels.
  double peak = fma_peak(threads);
  std::vector<std::vector<Result>> results;
  for (const Workload& workload : all) results.push_back(measure_all(bench, workload));
  peak = std::max(peak, fma_peak(threads));
  fmt::print("float32 multiply-add peak, {} thread(s): {:.1f} GFLOP/s\n", threads, peak / 1e9);
  for (std::size_t i = 0; i < all.size(); ++i) print_results(all[i], results[i], peak);
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::run_program(argc, argv,
                                     {{"configs", "gpt2-124m-t256:4,llama-60m:4"},
                                      {"threads", std::to_string(tessera::default_threads(1))},
                                      {"seconds", "0.5"}},
                                     tessera::bench::run);
}
