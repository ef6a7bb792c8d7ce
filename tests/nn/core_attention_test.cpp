// Every kind of context parallelism computes the attention of one rank, forward and backward, for
// every mask, in f64.
#include "tessera/nn/core_attention.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "tessera/launch/launch.h"
#include "tests/support/lazy_communicator.h"
#include "tests/support/tensors.h"
#include "tests/support/values.h"

namespace tessera::test {
namespace {

struct CoreCase {
  CpCommType kind = CpCommType::p2p;
  int ranks = 2;
  int heads_size = 1;  ///< a2a+p2p: ranks that exchange heads
  std::int64_t heads = 8;
  std::int64_t groups = 8;
  bool causal = true;
  std::int64_t window = 0;
  std::vector<double> documents = {};  ///< where they start, in both samples
  double dropout = 0;
  double softcap = 0;
  std::int64_t chunk = 3;  ///< positions of one of the 2 R chunks
  DType dtype = DType::f64;
  bool recompute = false;
  std::int64_t value_size = 4;
  bool lazy = false;  ///< nothing is communicated before it is waited for

  std::string text() const {
    return fmt::format(
        "{} ranks {} heads size {} heads {}/{} causal {} window {} documents {} dropout {} softcap "
        "{} chunk {} values of {}",
        to_string(kind), ranks, heads_size, heads, groups, causal, window, documents.size(),
        dropout, softcap, chunk, value_size);
  }
};

constexpr std::int64_t kBatch = 2, kSize = 4;

/// By position: o, dq, dk, dv as [S, B, heads, head size].
struct CoreResults {
  Values o, dq, dk, dv;
};

/// Attention of one rank of a group, and its rows of the tensors of all positions.
class CoreRank {
 public:
  CoreRank(const CoreCase& c, std::int64_t seq, std::shared_ptr<Communicator> world)
      : case_(c),
        seq_(seq),
        ranks_(world->size()),
        ranges_(SequenceRanges::zigzag(seq, world->size(), world->rank())),
        mesh_(parallel(c, ranks_), std::move(world)) {
    LayerContext layer{.dtype = c.dtype};
    layer.context_rank = mesh_.context().rank();
    layer.context_size = ranks_;
    layer.context_heads_size = c.heads_size;
    layer.cp_comm_types = {c.kind};
    core_ = make_core_attention({.dtype = c.dtype,
                                 .heads = c.heads,
                                 .groups = c.groups,
                                 .head_size = kSize,
                                 .value_size = c.value_size,
                                 .softmax_scale = 0.4,
                                 .softcap = c.softcap,
                                 .causal = c.causal,
                                 .window = c.window,
                                 .dropout = c.dropout,
                                 .dropout_key = 77,
                                 .first_head = 3,
                                 .recompute = c.recompute},
                                layer);
  }

  /// Adds this rank's rows to the results of all.
  void run(CoreResults& all, std::mutex& mutex) {
    const BatchShape shape{seq_ / ranks_, kBatch};
    ArenaLayout activation_size, scratch_size;
    plan(activation_size, scratch_size, shape);
    const View activation_memory = poisoned(activation_size.bytes());
    const View scratch_memory = poisoned(scratch_size.bytes());
    ArenaLayout activations(activation_memory), scratch(scratch_memory);
    const auto saved = plan(activations, scratch, shape);

    const Tensor samples = lab_.tensor(DType::i64, {kBatch}, {5, 11});
    Microbatch batch;
    batch.shape = shape;
    batch.samples = samples.view();
    batch.ranges = ranges_;
    Tensor documents;
    if (!case_.documents.empty()) {
      Values starts = case_.documents;
      for (const double start : case_.documents)  // others in the second sample
        starts.push_back(start > 0 ? start + 1 : 0);
      documents = lab_.tensor(DType::i32, {kBatch, std::ssize(case_.documents)}, starts);
      batch.documents = documents.view();
    }
    const std::int64_t size = case_.value_size;
    const Tensor q = rows(case_.heads, kSize, 1), k = rows(case_.groups, kSize, 2);
    const Tensor v = rows(case_.groups, size, 3), d_o = rows(case_.heads, size, 4);
    const Tensor o = lab_.full(case_.dtype, d_o.view().shape(), kPoison);
    const Tensor dq = lab_.full(case_.dtype, q.view().shape(), kPoison);
    const Tensor dk = lab_.full(case_.dtype, k.view().shape(), kPoison);
    const Tensor dv = lab_.full(case_.dtype, v.view().shape(), kPoison);
    const View workspace = poisoned(
        core_->workspace_bytes(*lab_.operator->(), shape, seq_, AttentionGradients::written));
    Context context{*lab_.operator->(), lab_.stream, mesh_, workspace};
    const CoreAttention::Heads heads{q.view(), k.view(), v.view()};
    core_->forward(context, batch, o.view(), heads, *saved);
    // Another microbatch runs in the same scratch.
    if (case_.recompute) core_->forward(context, batch, o.view(), heads, *saved);
    core_->start_backward(context, heads, *saved, case_.recompute);
    core_->backward(context, batch, {dq.view(), dk.view(), dv.view()}, d_o.view(), heads, o.view(),
                    *saved);
    const std::lock_guard lock(mutex);
    put(all.o, lab_.read(o), case_.heads * size);
    put(all.dq, lab_.read(dq), case_.heads * kSize);
    put(all.dk, lab_.read(dk), case_.groups * kSize);
    put(all.dv, lab_.read(dv), case_.groups * size);
  }

 private:
  static constexpr double kPoison = std::numeric_limits<double>::quiet_NaN();

  static ParallelOptions parallel(const CoreCase& c, int ranks) {
    ParallelOptions options;
    options.context = options.nproc = ranks;
    if (ranks > 1 && c.heads_size > 1)
      options.hierarchical_context = {c.heads_size, ranks / c.heads_size};
    return options;
  }
  std::unique_ptr<CoreAttention::Saved> plan(ArenaLayout& activations, ArenaLayout& scratch,
                                             const BatchShape& shape) const {
    ActivationLayout both{activations, activations};
    return core_->plan_buffers(both, scratch, shape);
  }
  View poisoned(std::size_t bytes) {
    const auto count = static_cast<std::int64_t>(bytes / sizeof(double) + 1);
    buffers_.push_back(lab_.full(DType::f64, {count}, kPoison));
    return View(buffers_.back().view().raw(), DType::u8, {static_cast<std::int64_t>(bytes)});
  }
  // This rank's rows of a tensor [S, B, heads, size] of random values.
  Tensor rows(std::int64_t heads, std::int64_t size, std::uint64_t seed) {
    const Values all = random_values(seq_ * kBatch * heads * size, seed);
    const std::int64_t width = kBatch * heads * size, count = seq_ / ranks_;
    Values own;
    for (std::int64_t row = 0; row < count; ++row) {
      const auto from = all.begin() + ranges_.at(row) * width;
      own.insert(own.end(), from, from + width);
    }
    return lab_.tensor(case_.dtype, {count, kBatch, heads, size}, own);
  }
  void put(Values& all, const Values& own, std::int64_t channels) const {
    const std::int64_t width = kBatch * channels;
    all.resize(static_cast<std::size_t>(seq_ * width));
    for (std::int64_t row = 0; row < seq_ / ranks_; ++row)
      std::copy_n(own.begin() + row * width, width, all.begin() + ranges_.at(row) * width);
  }

  const CoreCase& case_;
  std::int64_t seq_;
  int ranks_;
  SequenceRanges ranges_;
  Lab lab_;
  Mesh mesh_;
  std::vector<Tensor> buffers_;
  std::unique_ptr<CoreAttention> core_;
};

CoreResults run_core(const CoreCase& c, int ranks) {
  CoreResults all;
  std::mutex mutex;
  const std::int64_t seq = 2 * c.chunk * c.ranks;
  run_ranks(ranks, 1, [&](Rank& rank) {
    std::shared_ptr<Communicator> world = rank.world;
    if (c.lazy) world = std::make_shared<LazyCommunicator>(world, true);
    CoreRank(c, seq, world).run(all, mutex);
  });
  return all;
}

// Rounding of the type: of results, and of the outputs that a ring merges.
double tolerance_of_core(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return 1e-6;
    case DType::bf16: return 1e-2;
    default: return 1.5e-3;
  }
}

void expect_core(const CoreCase& c) {
  SCOPED_TRACE(c.text());
  const CoreResults one = run_core(c, 1), all = run_core(c, c.ranks);
  const auto expect = [&](const char* name, const Values& got, const Values& want) {
    ASSERT_EQ(got.size(), want.size());
    EXPECT_LE(relative_error(got, want), tolerance_of_core(c.dtype)) << name;
  };
  expect("o", all.o, one.o);
  expect("dq", all.dq, one.dq);
  expect("dk", all.dk, one.dk);
  expect("dv", all.dv, one.dv);
}

/// The case for every kind, as far as it has that number of ranks and heads.
void expect_all_kinds(CoreCase c) {
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
    c.kind = kind;
    if (kind != CpCommType::a2a || c.heads >= c.ranks) expect_core(c);
    if (testing::Test::HasFailure()) return;
  }
  c.kind = CpCommType::a2a_p2p;
  for (int size = 2; size < c.ranks; ++size)
    if (c.ranks % size == 0 && c.heads >= size) {
      c.heads_size = size;
      expect_core(c);
      if (testing::Test::HasFailure()) return;
    }
}

TEST(CoreAttention, EqualsOneRank) {
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t groups : {1, 4, 8})
      expect_all_kinds({.ranks = ranks, .groups = groups});
}

// Shares of heads of several sizes, whole key/value heads and parts of them.
TEST(CoreAttention, HeadsNeedNotDivide) {
  for (const auto& [heads, groups] :
       {std::pair<std::int64_t, std::int64_t>{7, 7}, {10, 5}, {6, 2}, {8, 2}, {5, 1}})
    for (const int ranks : {3, 4})
      expect_all_kinds({.ranks = ranks, .heads = heads, .groups = groups});
}

TEST(CoreAttention, FullAttention) {
  for (const int ranks : {2, 3, 4})
    expect_all_kinds({.ranks = ranks, .groups = 2, .causal = false});
}

// Windows shorter than a chunk of 3 positions, as long, longer, and longer than the sequence.
TEST(CoreAttention, Windows) {
  for (const int ranks : {2, 4})
    for (std::int64_t window = 1; window <= 2 * 3 * ranks + 1; window += ranks == 2 ? 1 : 3)
      expect_all_kinds({.ranks = ranks, .groups = 4, .window = window});
}

TEST(CoreAttention, DocumentsOfAnyLengths) {
  for (const int ranks : {2, 3, 4}) {
    expect_all_kinds({.ranks = ranks, .groups = 2, .documents = {0, 1, 6, 11}});
    expect_all_kinds({.ranks = ranks, .groups = 2, .documents = {0, 1, 2, 3, 4, 5}});
    expect_all_kinds({.ranks = ranks, .groups = 4, .window = 4, .documents = {0, 5}});
  }
}

TEST(CoreAttention, DropoutAndSoftCapsFollowGlobalPositionsAndHeads) {
  for (const int ranks : {2, 3, 4}) {
    expect_all_kinds({.ranks = ranks, .groups = 2, .dropout = 0.4});
    expect_all_kinds(
        {.ranks = ranks, .groups = 8, .window = 7, .documents = {0, 4}, .dropout = 0.2});
    expect_all_kinds({.ranks = ranks, .groups = 4, .softcap = 0.7});
  }
}

TEST(CoreAttention, ChunksOfOnePosition) {
  for (const int ranks : {2, 3, 8})
    expect_all_kinds({.ranks = ranks, .groups = 4, .window = 3, .chunk = 1});
}

TEST(CoreAttention, ShorterTypes) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const int ranks : {2, 4})
      for (const std::int64_t groups : {1, 8})
        expect_all_kinds({.ranks = ranks, .groups = groups, .dtype = dtype});
}

// Latent attention has smaller value heads than key heads; larger ones work as well.
TEST(CoreAttention, ValueHeadsOfAnotherSize) {
  for (const std::int64_t value_size : {3, 7})
    for (const int ranks : {2, 3, 4})
      for (const std::int64_t groups : {2, 8}) {
        expect_all_kinds({.ranks = ranks, .groups = groups, .value_size = value_size});
        expect_all_kinds({.ranks = ranks,
                          .groups = groups,
                          .window = 5,
                          .documents = {0, 4},
                          .dropout = 0.2,
                          .value_size = value_size});
      }
}

TEST(CoreAttention, Recompute) {
  for (const int ranks : {2, 4}) expect_all_kinds({.ranks = ranks, .groups = 4, .recompute = true});
}

// A missing wait, or a buffer that is written while it is being sent, shows.
TEST(CoreAttention, NothingIsUsedBeforeItArrived) {
  for (const int ranks : {2, 3, 4, 8})
    expect_all_kinds({.ranks = ranks, .groups = ranks == 2 ? 1 : 8, .lazy = true});
}

}  // namespace
}  // namespace tessera::test
