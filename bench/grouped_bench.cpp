// bench_grouped: the three products of a mixture of experts (forward, input gradient, weight
// gradient) over rows that are sorted by expert.
#include <fmt/core.h>

#include <random>

#include "bench/program.h"
#include "tessera/base/check.h"
#include "tessera/kernels/kernels.h"
#include "tessera/launch/launch.h"
#include "tessera/tensor/memory.h"

namespace tessera::bench {
namespace {

// rows x k times [experts, n, k]
struct Sizes {
  std::int64_t experts = 0, rows = 0, k = 0, n = 0;
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(k) * static_cast<double>(n);
  }
};

class GroupedBench {
 public:
  GroupedBench(Device device, DType dtype, int threads, const Sizes& sizes, bool even)
      : memory_(device),
        stream_(device),
        kernels_(make_kernels(device, threads, {.deterministic = false})),
        sizes_(sizes),
        dtype_(dtype),
        x_(random({sizes.rows, sizes.k})),
        y_(random({sizes.rows, sizes.n})),
        dx_(random({sizes.rows, sizes.k})),
        weight_(random({sizes.experts, sizes.n, sizes.k})),
        gradient_(memory_.allocate(MemoryUse::gradients, accumulator_type(dtype),
                                   {sizes.experts, sizes.n, sizes.k})),
        offsets_(offsets(even)) {
    kernels_->fill(stream_, gradient_, 0);
  }

  double forward(double seconds) {
    return measure(seconds, [&] {
      kernels_->grouped_gemm(stream_, y_, x_.view(), weight_.view(), offsets_.view(), true);
    });
  }
  double input_gradient(double seconds) {
    return measure(seconds, [&] {
      kernels_->grouped_gemm(stream_, dx_, y_.view(), weight_.view(), offsets_.view(), false);
    });
  }
  double weight_gradient(double seconds, bool accumulate) {
    return measure(seconds, [&] {
      kernels_->grouped_weight_gradient(stream_, gradient_, y_.view(), x_.view(), offsets_.view(),
                                        accumulate);
    });
  }

 private:
  template <class F>
  double measure(double seconds, F&& call) {
    return median_seconds(seconds, [&] {
      call();
      stream_.synchronize();
    });
  }
  Tensor random(const Shape& shape) {
    Tensor x = memory_.allocate(MemoryUse::data, dtype_, shape);
    const Shape rows{x.view().numel() / shape[-1], shape[-1]};
    kernels_->random_normal(stream_, x.view().reshape(rows), ++seed_, rows, {0, 0}, 0.0, 0.1);
    return x;
  }
  // Equal numbers of rows, or those of rows that choose an expert at random.
  Tensor offsets(bool even) {
    std::vector<std::int32_t> counts(static_cast<std::size_t>(sizes_.experts));
    std::mt19937_64 generator(1);
    for (std::int64_t i = 0; i < sizes_.rows; ++i)
      ++counts[(even ? static_cast<std::uint64_t>(i) : generator()) % counts.size()];
    std::vector<std::int32_t> ends{0};
    for (const std::int32_t count : counts) ends.push_back(ends.back() + count);
    Tensor result = memory_.allocate(MemoryUse::data, DType::i32, {std::ssize(ends)});
    stream_.api().copy_bytes(stream_.native(), result.view().raw(), ends.data(),
                             result.view().bytes());
    stream_.synchronize();
    return result;
  }

  Memory memory_;
  Stream stream_;
  std::unique_ptr<Kernels> kernels_;
  Sizes sizes_;
  DType dtype_;
  std::uint64_t seed_ = 0;
  Tensor x_, y_, dx_, weight_, gradient_, offsets_;
};

// experts:rows:k:n, separated by commas
std::vector<Sizes> sizes_from(const std::string& text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  std::vector<Sizes> result;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::vector<std::int64_t> parts;
    for (std::size_t at = begin; at <= end;) {
      const std::size_t stop = std::min(text.find(':', at), end);
      parts.push_back(positive_number("--sizes", text.substr(at, stop - at), kMost));
      at = stop + 1;
    }
    check_input(parts.size() == 4, "--sizes: expected EXPERTS:ROWS:K:N, got '{}'",
                text.substr(begin, end - begin));
    result.push_back({parts[0], parts[1], parts[2], parts[3]});
    begin = end + 1;
  }
  return result;
}

void run(const Flags& flags) {
  const double seconds = flags.seconds("seconds");
  fmt::print("{:>8}{:>9}{:>8}{:>8}  {:<28}{:>10}{:>10}\n", "experts", "rows", "k", "n", "product",
             "ms", "TFLOP/s");
  for (const Sizes& sizes : sizes_from(flags.text("sizes"))) {
    GroupedBench bench(device_from(flags.text("device")), dtype_from(flags.text("dtype")),
                       flags.threads(), sizes, !flags.on("uneven"));
    const auto print = [&](const char* name, double time) {
      fmt::print("{:>8}{:>9}{:>8}{:>8}  {:<28}{:>10.3f}{:>10.4g}\n", sizes.experts, sizes.rows,
                 sizes.k, sizes.n, name, time * 1e3, sizes.flops() / time / 1e12);
      std::fflush(stdout);
    };
    print("forward", bench.forward(seconds));
    print("input gradient", bench.input_gradient(seconds));
    print("weight gradient", bench.weight_gradient(seconds, false));
    print("weight gradient, accumulated", bench.weight_gradient(seconds, true));
  }
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::run_program(
      argc, argv,
      {{"device", "cpu", "cpu or cuda"},
       {"dtype", "f32"},
       {"sizes", "8:512:256:512,32:1024:256:128", "EXPERTS:ROWS:K:N, separated by commas"},
       {"uneven", "false", "rows choose their experts at random"},
       {"threads", std::to_string(tessera::default_threads(1))},
       {"seconds", "0.5", "at least, for each measurement"}},
      tessera::bench::run);
}
