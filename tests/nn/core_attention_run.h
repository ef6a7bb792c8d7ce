// Core attention of any kind of context parallelism on a group of ranks, by position, and its
// comparison with one rank.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/launch/launch.h"
#include "tessera/nn/core_attention.h"
#include "tests/support/lazy_communicator.h"
#include "tests/support/tensors.h"
#include "tests/support/values.h"

namespace tessera::test {

/// Sizes, mask and kind of an attention.
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
  bool lazy = false;           ///< nothing is communicated before it is waited for
  std::int64_t head_size = 4;  ///< of queries and keys
  bool plain = false;          ///< PlainAttention, made without looking at the kind
  /// All inputs of the last document; it is not among the results. 0: random ones, and it is.
  double padding = 0;
  std::int64_t few_queries = 0;  ///< calls with so many or fewer need more workspace than others

  std::string text() const {
    return fmt::format(
        "{} ranks {} heads size {} heads {}/{} causal {} window {} documents {} dropout {} softcap "
        "{} chunk {} heads of {} and {}",
        to_string(kind), ranks, heads_size, heads, groups, causal, window, documents.size(),
        dropout, softcap, chunk, head_size, value_size);
  }
};

constexpr std::int64_t kCoreBatch = 2;

/// Kernels that need more workspace for few queries than for many.
class FewQueriesNeedMore final : public cpu::CpuKernels {
 public:
  explicit FewQueriesNeedMore(std::int64_t few) : CpuKernels(1), few_(few) {}
  std::size_t attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v, DType dtype,
                                        AttentionGradients gradients) const override {
    return CpuKernels::attention_workspace_bytes(q, k, v, dtype, gradients) +
           (q[0] <= few_ ? 1 << 20 : 0);
  }

 private:
  std::int64_t few_;
};

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
    const CoreAttentionSpec spec{.dtype = c.dtype,
                                 .heads = c.heads,
                                 .groups = c.groups,
                                 .head_size = c.head_size,
                                 .value_size = c.value_size,
                                 .softmax_scale = 0.4,
                                 .softcap = c.softcap,
                                 .causal = c.causal,
                                 .window = c.window,
                                 .dropout = c.dropout,
                                 .dropout_key = 77,
                                 .first_head = 3,
                                 .recompute = c.recompute};
    core_ = c.plain ? std::make_unique<PlainAttention>(spec) : make_core_attention(spec, layer);
    if (c.few_queries > 0) few_queries_.emplace(c.few_queries);
  }

  /// Adds this rank's rows to the results of all.
  void run(CoreResults& all, std::mutex& mutex) {
    const BatchShape shape{seq_ / ranks_, kCoreBatch};
    ArenaLayout activation_size, scratch_size;
    plan(activation_size, scratch_size, shape);
    const View activation_memory = poisoned(activation_size.bytes());
    const View scratch_memory = poisoned(scratch_size.bytes());
    ArenaLayout activations(activation_memory), scratch(scratch_memory);
    const auto saved = plan(activations, scratch, shape);

    const Tensor samples = lab_.tensor(DType::i64, {kCoreBatch}, {5, 11});
    Microbatch batch;
    batch.shape = shape;
    batch.samples = samples.view();
    batch.ranges = ranges_;
    Tensor documents;
    if (!case_.documents.empty()) {
      Values starts = case_.documents;
      for (const double start : case_.documents)  // others in the second sample: is_padding()
        starts.push_back(start > 0 ? start + 1 : 0);
      documents = lab_.tensor(DType::i32, {kCoreBatch, std::ssize(case_.documents)}, starts);
      batch.documents = documents.view();
    }
    const std::int64_t size = case_.value_size, head_size = case_.head_size;
    const Tensor q = rows(case_.heads, head_size, 1), k = rows(case_.groups, head_size, 2);
    const Tensor v = rows(case_.groups, size, 3), d_o = rows(case_.heads, size, 4);
    const Tensor o = lab_.full(case_.dtype, d_o.view().shape(), kPoison);
    const Tensor dq = lab_.full(case_.dtype, q.view().shape(), kPoison);
    const Tensor dk = lab_.full(case_.dtype, k.view().shape(), kPoison);
    const Tensor dv = lab_.full(case_.dtype, v.view().shape(), kPoison);
    const View workspace =
        poisoned(core_->workspace_bytes(kernels(), shape, seq_, AttentionGradients::written));
    Context context{kernels(), lab_.stream, mesh_, workspace};
    const CoreAttention::Heads heads{q.view(), k.view(), v.view()};
    core_->forward(context, batch, o.view(), heads, *saved);
    // Another microbatch runs in the same scratch.
    if (case_.recompute) core_->forward(context, batch, o.view(), heads, *saved);
    core_->start_backward(context, heads, *saved, case_.recompute);
    core_->backward(context, batch, {dq.view(), dk.view(), dv.view()}, d_o.view(), heads, o.view(),
                    *saved);
    const std::lock_guard lock(mutex);
    put(all.o, lab_.read(o), case_.heads * size);
    put(all.dq, lab_.read(dq), case_.heads * head_size);
    put(all.dk, lab_.read(dk), case_.groups * head_size);
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
  bool is_padding(std::int64_t position, std::int64_t sample) const {
    return case_.padding != 0 &&
           static_cast<double>(position) >= case_.documents.back() + static_cast<double>(sample);
  }
  // Sets the padding of all positions [S, B, channels].
  void pad(Values& all, std::int64_t channels, double value) const {
    for (std::int64_t row = 0; row < std::ssize(all) / channels; ++row)
      if (is_padding(row / kCoreBatch, row % kCoreBatch))
        std::fill_n(all.begin() + row * channels, channels, value);
  }
  // This rank's rows of a tensor [S, B, heads, size] of random values.
  Tensor rows(std::int64_t heads, std::int64_t size, std::uint64_t seed) {
    Values all = random_values(seq_ * kCoreBatch * heads * size, seed);
    pad(all, heads * size, case_.padding);
    const std::int64_t width = kCoreBatch * heads * size, count = seq_ / ranks_;
    Values own;
    for (std::int64_t row = 0; row < count; ++row) {
      const auto from = all.begin() + ranges_.at(row) * width;
      own.insert(own.end(), from, from + width);
    }
    return lab_.tensor(case_.dtype, {count, kCoreBatch, heads, size}, own);
  }
  void put(Values& all, const Values& own, std::int64_t channels) const {
    const std::int64_t width = kCoreBatch * channels;
    all.resize(static_cast<std::size_t>(seq_ * width));
    for (std::int64_t row = 0; row < seq_ / ranks_; ++row)
      std::copy_n(own.begin() + row * width, width, all.begin() + ranges_.at(row) * width);
    pad(all, channels, 0);
  }
  Kernels& kernels() { return few_queries_ ? *few_queries_ : *lab_.operator->(); }

  const CoreCase& case_;
  std::int64_t seq_;
  int ranks_;
  SequenceRanges ranges_;
  Lab lab_;
  Mesh mesh_;
  std::vector<Tensor> buffers_;
  std::unique_ptr<CoreAttention> core_;
  std::optional<FewQueriesNeedMore> few_queries_;
};

inline CoreResults run_core(const CoreCase& c, int ranks) {
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

/// Rounding of the type: of results, and of the outputs that a ring merges.
inline double tolerance_of_core(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return 1e-6;
    case DType::bf16: return 1e-2;
    default: return 1.5e-3;
  }
}

/// The case equals the same on one rank.
inline void expect_core(const CoreCase& c) {
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

/// Calls expect(case) for every kind, as far as the case has that number of ranks and heads.
inline void for_all_kinds(CoreCase c, const std::function<void(const CoreCase&)>& expect) {
  const auto check_case = [&] {
    if (testing::Test::HasFailure()) return;
    SCOPED_TRACE(c.text());
    expect(c);
  };
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
    c.kind = kind;
    if (kind != CpCommType::a2a || c.heads >= c.ranks) check_case();
  }
  c.kind = CpCommType::a2a_p2p;
  for (int size = 2; size < c.ranks; ++size)
    if (c.ranks % size == 0 && c.heads >= size) {
      c.heads_size = size;
      check_case();
    }
}
inline void expect_all_kinds(const CoreCase& c) { for_all_kinds(c, expect_core); }

}  // namespace tessera::test
