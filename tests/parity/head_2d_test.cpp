// The output layer with 2-D tensor parallelism, in several chunks of rows, against one rank:
// losses, and gradients that add up over two microbatches.
#include <gtest/gtest.h>

#include <mutex>

#include "tessera/base/rng.h"
#include "tessera/launch/launch.h"
#include "tessera/nn/initialize.h"
#include "tessera/nn/lm_head.h"
#include "tests/support/global_tensors.h"
#include "tests/support/tensors.h"

namespace tessera::test {
namespace {

constexpr std::int64_t kVocab = 53;
constexpr std::int64_t kHidden = 12;
constexpr BatchShape kBatch{70, 6};
constexpr DType kF64Type = DType::f64;

// Numbers from 0 to below 1.
Values uniform(std::int64_t n, std::uint64_t seed) {
  Values values;
  const RngKey key = rng_key(seed, RngPurpose::test, "head");
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(uniform_from_word(philox_word(key, static_cast<std::uint64_t>(i))));
  return values;
}
Values whole_numbers(std::int64_t n, std::uint64_t seed, std::int64_t end) {
  Values values = uniform(n, seed);
  for (double& each : values) each = std::floor(each * static_cast<double>(end));
  return values;
}

struct HeadResult {
  Values losses;  ///< [S, B]
  Values dx;      ///< [S, B, hidden]
  GlobalTensors gradients;
};

// One rank's part of a microbatch: some samples, some channels.
struct Part {
  Part(int side, int rank)
      : samples(balanced_range(kBatch.batch, std::max(1, side), side > 0 ? rank / side : 0)),
        channels(balanced_range(kHidden, std::max(1, side), side > 0 ? rank % side : 0)) {}

  /// Calls f(index in the part, index in the whole) for all of [S, B, width].
  template <class F>
  void each(std::int64_t width, const Range& columns, F&& f) const {
    std::size_t at = 0;
    for (std::int64_t s = 0; s < kBatch.seq; ++s)
      for (std::int64_t b = samples.begin; b < samples.end; ++b)
        for (std::int64_t c = columns.begin; c < columns.end; ++c)
          f(at++, static_cast<std::size_t>((s * kBatch.batch + b) * width + c));
  }
  Values of(const Values& whole, std::int64_t width, const Range& columns) const {
    Values part;
    each(width, columns, [&](std::size_t, std::size_t from) { part.push_back(whole[from]); });
    return part;
  }

  Range samples, channels;
};

class HeadRun {
 public:
  HeadRun(int side, const Rank& rank)
      : part_(side, rank.rank),
        shape_{kBatch.seq, part_.samples.length()},
        mesh_(layout(side), rank.world),
        context_{*lab_.operator->(), lab_.stream, mesh_, {}},
        // At least 64 rows make a chunk.
        head_({kVocab, kHidden, 0.2, 0.1}, {kF64Type, 1234, rank.rank, rank.size, false, 1, side},
              nullptr) {
    ParameterList parameters;
    head_.collect(parameters);
    buffers_.emplace(std::vector<ParameterList>{parameters}, context_, lab_.memory,
                     ParameterBuffers::Options{.dtype = DType::f64, .gradients = kF64Type});
    initialize_parameters(context_, parameters, 1234);
    lay_out();
  }

  /// Runs one microbatch forward, gradients included, and puts this rank's part into `result`.
  void run(std::uint64_t seed, HeadResult& result) {
    const Values x = uniform(kBatch.rows() * kHidden, seed);
    const Tensor labels = tensor(DType::i32, whole_numbers(kBatch.rows(), seed, kVocab));
    const Tensor mask = tensor(DType::f32, whole_numbers(kBatch.rows(), seed + 1, 2));
    const Tensor scale = lab_.tensor(kF64Type, {1}, {0.01});
    lab_.write(saved_.x, part_.of(x, kHidden, part_.channels));
    Microbatch batch;
    batch.shape = shape_;
    batch.labels = labels.view();
    batch.mask = mask.view();
    batch.grad_scale = scale.view();
    head_.forward(context_, batch, saved_, scratch_);
    put(result.losses, lab_.read(saved_.loss), 1, {0, 1});
    put(result.dx, lab_.read(saved_.x), kHidden, part_.channels);
  }

  const ParameterBuffers& buffers() const { return *buffers_; }
  std::int64_t chunk() const { return scratch_.maximum.dim(0); }
  std::int64_t rows() const { return shape_.rows(); }

 private:
  static ParallelOptions layout(int side) {
    ParallelOptions options;
    options.tensor_2d = side;
    options.tensor = std::max(1, side * side);
    return options;
  }
  Tensor tensor(DType dtype, const Values& whole) {
    return lab_.tensor(dtype, {shape_.rows()}, part_.of(whole, 1, {0, 1}));
  }
  void put(Values& whole, const Values& part, std::int64_t width, const Range& columns) const {
    static std::mutex mutex;  // ranks of a row put the same losses
    const std::lock_guard lock(mutex);
    part_.each(width, columns, [&](std::size_t from, std::size_t to) { whole[to] = part[from]; });
  }
  void lay_out() {
    const auto plan = [&](ArenaLayout& memory) {
      ActivationLayout activations{memory, memory};
      saved_ = head_.plan_buffers(activations, shape_);
      scratch_ = head_.plan_scratch(memory, shape_);
    };
    ArenaLayout measure;
    plan(measure);
    memory_ = lab_.workspace(measure.bytes());
    ArenaLayout arena(memory_);
    plan(arena);
  }

  Part part_;
  BatchShape shape_;
  Lab lab_;
  Mesh mesh_;
  Context context_;
  LmHead head_;
  std::optional<ParameterBuffers> buffers_;
  Tensor memory_;
  LmHead::Saved saved_;
  LmHead::Scratch scratch_;
};

HeadResult run_head(int side) {
  HeadResult result{Values(static_cast<std::size_t>(kBatch.rows())),
                    Values(static_cast<std::size_t>(kBatch.rows() * kHidden)),
                    {}};
  Gatherer gradients;
  run_ranks(std::max(1, side * side), 1, [&](Rank& rank) {
    HeadRun head(side, rank);
    EXPECT_GT(head.rows(), 2 * head.chunk());
    head.run(5, result);
    rank.world->barrier();
    head.run(6, result);
    gradients.add_all({head.buffers().grads()});
  });
  result.gradients = gradients.tensors();
  return result;
}

TEST(Head2d, EqualsOneRank) {
  const HeadResult want = run_head(0);
  for (const int side : {2, 3}) {
    const HeadResult got = run_head(side);
    EXPECT_LE(relative_error(got.losses, want.losses, 0), 1e-13);
    EXPECT_LE(relative_error(got.dx, want.dx, 0), 1e-13);
    expect_tensors_near(got.gradients, want.gradients, 1e-13);
  }
}

}  // namespace
}  // namespace tessera::test
