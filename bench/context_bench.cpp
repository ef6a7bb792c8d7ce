// bench_context: core attention of one context-parallel rank, with all that it computes (every
// call, merges, sums of gradients) and nothing sent, against its share of the time that one rank
// needs for whole sequences.
#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "bench/program.h"
#include "bench/silent_communicator.h"
#include "tessera/base/check.h"
#include "tessera/launch/launch.h"
#include "tessera/nn/core_attention.h"
#include "tessera/tensor/memory.h"

namespace tessera::bench {
namespace {

struct Sizes {
  std::int64_t seq = 0, heads = 0, groups = 0, head_size = 0;
};

struct Seconds {
  double forward = 0, backward = 0;
  double both() const { return forward + backward; }
};

// Attention of this rank of `world`, in whose groups nobody else computes.
class AttentionRank {
 public:
  AttentionRank(const Rank& rank, Device device, DType dtype, CpCommType kind, const Sizes& sizes)
      : memory_(device),
        stream_(device),
        kernels_(make_kernels(device, rank.threads, {.deterministic = false})),
        mesh_(parallel(rank.size), std::make_shared<SilentCommunicator>(rank.world)),
        shape_{sizes.seq / rank.size, 1},
        dtype_(dtype) {
    LayerContext layer{.dtype = dtype};
    layer.context_rank = rank.rank;
    layer.context_size = rank.size;
    layer.cp_comm_types = {kind};
    core_ = make_core_attention({.dtype = dtype,
                                 .heads = sizes.heads,
                                 .groups = sizes.groups,
                                 .head_size = sizes.head_size,
                                 .value_size = sizes.head_size,
                                 .softmax_scale = 0.1},
                                layer);
    batch_.shape = shape_;
    batch_.ranges = SequenceRanges::zigzag(sizes.seq, rank.size, rank.rank);
    for (Tensor* each : {&q_, &out_, &d_out_, &dq_}) *each = heads_of(sizes.heads, sizes);
    for (Tensor* each : {&k_, &v_, &dk_, &dv_}) *each = heads_of(sizes.groups, sizes);
    plan();
    workspace_ =
        bytes(core_->workspace_bytes(*kernels_, shape_, sizes.seq, AttentionGradients::written));
  }

  Seconds measure(double seconds) {
    Context context{*kernels_, stream_, mesh_, workspace_};
    const CoreAttention::Heads heads{q_.view(), k_.view(), v_.view()};
    Seconds result;
    result.forward = median_seconds(seconds, [&] {
      core_->forward(context, batch_, out_, heads, *saved_);
      stream_.synchronize();
    });
    result.backward = median_seconds(seconds, [&] {
      core_->start_backward(context, heads, *saved_, false);
      core_->backward(context, batch_, {dq_, dk_, dv_}, d_out_.view(), heads, out_.view(), *saved_);
      stream_.synchronize();
    });
    return result;
  }

 private:
  static ParallelOptions parallel(int ranks) {
    ParallelOptions options;
    options.context = options.nproc = ranks;
    return options;
  }
  Tensor heads_of(std::int64_t heads, const Sizes& sizes) {
    Tensor x = memory_.allocate(MemoryUse::data, dtype_, {shape_.seq, 1, heads, sizes.head_size});
    const Shape rows{shape_.seq, heads * sizes.head_size};
    kernels_->random_normal(stream_, x.view().reshape(rows), ++seed_, rows, {0, 0}, 0.0, 1.0);
    return x;
  }
  Tensor bytes(std::size_t count) {
    return memory_.allocate(MemoryUse::workspace, DType::u8, {static_cast<std::int64_t>(count)});
  }
  std::unique_ptr<CoreAttention::Saved> lay_out(ArenaLayout& activations, ArenaLayout& scratch) {
    ActivationLayout both{activations, activations};
    return core_->plan_buffers(both, scratch, shape_);
  }
  void plan() {
    ArenaLayout activation_size, scratch_size;
    lay_out(activation_size, scratch_size);
    activations_ = bytes(activation_size.bytes());
    scratch_ = bytes(scratch_size.bytes());
    ArenaLayout activations(activations_.view()), scratch(scratch_.view());
    saved_ = lay_out(activations, scratch);
  }

  Memory memory_;
  Stream stream_;
  std::unique_ptr<Kernels> kernels_;
  Mesh mesh_;
  BatchShape shape_;
  DType dtype_;
  std::uint64_t seed_ = 0;
  Microbatch batch_;
  std::unique_ptr<CoreAttention> core_;
  Tensor q_, k_, v_, out_, d_out_, dq_, dk_, dv_, activations_, scratch_, workspace_;
  std::unique_ptr<CoreAttention::Saved> saved_;
};

struct Bench {
  Device device;
  DType dtype;
  CpCommType kind;
  int threads;
  double seconds;
};

// Of `measured`, one rank of a context group.
Seconds measure(const Bench& bench, const Sizes& sizes, int ranks, int measured) {
  Seconds result;
  run_ranks(ranks, bench.threads, [&](Rank& rank) {
    // All ranks split their groups; the others have no memory then, and do nothing more.
    if (rank.rank == measured) {
      AttentionRank attention(rank, bench.device, bench.dtype, bench.kind, sizes);
      result = attention.measure(bench.seconds);
    } else {
      ParallelOptions options;
      options.context = options.nproc = ranks;
      Mesh mesh(options, std::make_shared<SilentCommunicator>(rank.world));
    }
    rank.world->barrier_without_timeout();
  });
  return result;
}

// The slowest of the first, the middle and the last rank.
Seconds slowest(const Bench& bench, const Sizes& sizes, int ranks) {
  Seconds worst;
  std::vector<int> measured{0, ranks / 2, ranks - 1};
  measured.erase(std::unique(measured.begin(), measured.end()), measured.end());
  for (const int rank : measured) {
    const Seconds each = measure(bench, sizes, ranks, rank);
    worst = {std::max(worst.forward, each.forward), std::max(worst.backward, each.backward)};
  }
  return worst;
}

CpCommType kind_from(const std::string& name) {
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a})
    if (to_string(kind) == name) return kind;
  throw InputError(fmt::format("--cp-comm-type: expected p2p, all_gather or a2a, got '{}'", name));
}

std::vector<std::int64_t> numbers(const std::string& what, const std::string& list) {
  std::vector<std::int64_t> result;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    result.push_back(positive_number(what, list.substr(begin, end - begin), std::int64_t{1} << 24));
    begin = end + 1;
  }
  return result;
}

// FLOPs of causal attention over whole sequences: two products forward, five backward.
double flops(const Sizes& sizes, int products) {
  const double pairs = 0.5 * static_cast<double>(sizes.seq) * static_cast<double>(sizes.seq);
  return products * 2 * pairs * static_cast<double>(sizes.heads * sizes.head_size);
}

void run(const Flags& flags) {
  const Bench bench{device_from(flags.text("device")), dtype_from(flags.text("dtype")),
                    kind_from(flags.text("cp-comm-type")), flags.threads(),
                    flags.seconds("seconds")};
  const std::vector<std::int64_t> ranks = numbers("--ranks", flags.text("ranks"));
  fmt::print("{:>9}{:>7}{:>12}{:>10}{:>12}{:>10}{:>16}\n", "sequence", "ranks", "forward ms",
             "TFLOP/s", "backward ms", "TFLOP/s", "speed / 1 rank");
  for (const std::int64_t seq : numbers("--seq-lengths", flags.text("seq-lengths"))) {
    const Sizes sizes{seq, flags.number("heads", 1024), flags.number("groups", 1024),
                      flags.number("head-size", 1024)};
    std::optional<Seconds> one;
    for (const std::int64_t count : ranks) {
      const auto n = static_cast<int>(count);
      const Seconds time = slowest(bench, sizes, n);
      if (!one) one = {time.forward * n, time.backward * n};
      const auto rate = [&](int products, double seconds) {
        return flops(sizes, products) / (n * seconds) / 1e12;
      };
      fmt::print("{:>9}{:>7}{:>12.3f}{:>10.3g}{:>12.3f}{:>10.3g}{:>16.3f}\n", seq, n,
                 time.forward * 1e3, rate(2, time.forward), time.backward * 1e3,
                 rate(5, time.backward), one->both() / (n * time.both()));
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::run_program(
      argc, argv,
      {{"device", "cpu", "cpu or cuda"},
       {"dtype", "f32"},
       {"cp-comm-type", "p2p", "p2p, all_gather or a2a"},
       {"seq-lengths", "1024", "for example 32768,65536,131072"},
       {"ranks", "1,2,4,8", "the first one, 1, is what the others are compared with"},
       {"heads", "32"},
       {"groups", "8", "key/value heads"},
       {"head-size", "128"},
       {"threads", std::to_string(tessera::default_threads(1))},
       {"seconds", "0.5", "at least, for each measurement"}},
      tessera::bench::run);
}
