// The attention calls of a ring step in deterministic mode, where cuDNN may keep the gradients of
// all scores: with as many rows as a rank has of a long sequence, and the workspace that is
// planned.
#include <algorithm>
#include <cmath>

#include "tessera/nn/core_attention.h"
#include "tests/cuda/on_gpu.h"
#include "tests/support/values.h"

namespace tessera::test {
namespace {

constexpr std::int64_t kRows = 16384, kHeads = 32, kGroups = 8, kChannels = 64;

class CudaContextAttention : public OnGpu {};

// All queries have too many scores for cuDNN. Those of one chunk have 8 GiB of gradients, just few
// enough.
TEST_P(CudaContextAttention, CallsOfALongRingStepHaveTheirWorkspace) {
  Lab gpu(kGpu);  // deterministic
  const CoreAttentionSpec core{.dtype = dtype(),
                               .heads = kHeads,
                               .groups = kGroups,
                               .head_size = kChannels,
                               .value_size = kChannels};
  LayerContext layer{.dtype = dtype()};
  layer.context_size = 2;
  const BatchShape shape{kRows, 1};
  const Tensor workspace = gpu.workspace(
      make_core_attention(core, layer)
          ->workspace_bytes(*gpu.operator->(), shape, kRows, AttentionGradients::written));
  const auto rows = [&](std::int64_t heads, std::uint64_t seed) {
    return gpu.tensor(dtype(), {kRows, 1, heads, kChannels},
                      random_values(kRows * heads * kChannels, seed));
  };
  const Tensor q = rows(kHeads, 1), k = rows(kGroups, 2), v = rows(kGroups, 3),
               d_o = rows(kHeads, 4);
  const Tensor o = rows(kHeads, 5), lse = gpu.empty(acc(), {1, kHeads, kRows});
  const Tensor dq = gpu.full(acc(), q.view().shape(), 0), dk = gpu.full(acc(), k.view().shape(), 0);
  const Tensor dv = gpu.full(acc(), v.view().shape(), 0);
  for (const auto& [queries, keys] :
       {std::pair{kRows, kRows}, {kRows / 2, kRows}, {kRows, kRows / 2}}) {
    const auto first = [](const Tensor& x, std::int64_t length) {
      return x.view().slice(0, 0, length);
    };
    const View sums = lse.view().reshape({1 * kHeads * kRows}).slice(0, 0, kHeads * queries);
    const View lse_rows = sums.reshape({1, kHeads, queries});
    AttentionSpec spec;
    spec.scale = 0.125;
    spec.causal = queries == keys;
    gpu->attention_forward(gpu.stream, first(o, queries), lse_rows, first(q, queries),
                           first(k, keys), first(v, keys), spec, workspace.view());
    gpu->attention_backward(gpu.stream, first(dq, queries), first(dk, keys), first(dv, keys),
                            first(d_o, queries), first(q, queries), first(k, keys), first(v, keys),
                            first(o, queries), lse_rows, spec, workspace.view(),
                            {.dq = true, .dk_dv = true});
  }
  for (const Tensor* each : {&dq, &dk, &dv})
    EXPECT_TRUE(std::ranges::all_of(gpu.read(*each), [](double x) { return std::isfinite(x); }));
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaContextAttention, ::testing::Values(DType::bf16), name_of_dtype);

}  // namespace
}  // namespace tessera::test
