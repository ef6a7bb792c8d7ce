// Positions that do not count: context-parallel ranks may have nothing else, and nothing of them
// reaches a gradient.
#include <gtest/gtest.h>

#include "tests/parity/context_case.h"

namespace tessera {
namespace {

using ChangeBatch = std::function<void(HostBatch&)>;

// Labels of all samples at positions [begin, end) do not count.
void mask_labels(HostBatch& batch, std::int64_t begin, std::int64_t end) {
  for (std::int64_t b = 0; b < batch.batch; ++b)
    std::fill_n(batch.loss_mask.begin() + b * batch.seq_length + begin, end - begin, 0.0f);
}

struct Masks {
  std::string name;
  ChangeBatch change;
};

// For `context` ranks, of which the last has the two chunks in the middle.
std::vector<Masks> masks_for(int context) {
  const auto chunk = [context](const HostBatch& batch) { return batch.seq_length / 2 / context; };
  return {{"no label on the last rank",
           [=](HostBatch& batch) {
             mask_labels(batch, (context - 1) * chunk(batch), (context + 1) * chunk(batch));
           }},
          {"padding only on the last rank",
           [=](HostBatch& batch) {
             mask_labels(batch, (context - 1) * chunk(batch), batch.seq_length);
           }},
          {"no label in the second microbatch", [](HostBatch& batch) {
             if (batch.sample_numbers.front() == batch.batch)
               mask_labels(batch, 0, batch.seq_length);
           }}};
}

TEST(ContextMasked, ARankMayHaveNoLabelThatCounts) {
  for (const int context : {2, 4})
    for (const Masks& masks : masks_for(context))
      for (const LossAverage average : {LossAverage::per_token, LossAverage::per_microbatch}) {
        const ContextCase c{.family = "llama", .context = context, .dropout = 0.1};
        const auto run = [&](const ContextCase& each) {
          return test::run_layout(each.session(DType::f64), 1,
                                  {.average = average, .change_batch = masks.change});
        };
        const test::LayoutResult one = run(c.alone());
        EXPECT_GT(one.grad_norms.at(0), 0);
        for (const ContextCase& each : of_every_kind({c})) {
          SCOPED_TRACE(each.text() + ": " + masks.name);
          test::expect_same_layouts(run(each), one, {1e-11, 1e-11, 1e-11});
          if (HasFailure()) return;
        }
      }
}

// What stands behind the last label that counts changes no bit of the rest.
TEST(ContextMasked, PaddingIsNotSeen) {
  for (const int context : {2, 4})
    for (const ContextCase& each :
         of_every_kind({{.family = "qwen3", .context = context, .dropout = 0.1}})) {
      SCOPED_TRACE(each.text());
      const auto run = [&](std::int32_t padding) {
        const auto pad = [&](HostBatch& batch) {
          const std::int64_t real = batch.seq_length / 2 - 2;
          mask_labels(batch, real, batch.seq_length);
          for (std::int64_t b = 0; b < batch.batch; ++b)
            for (std::int64_t s = real; s < batch.seq_length; ++s) {
              const auto at = static_cast<std::size_t>(b * batch.seq_length + s);
              batch.tokens[at] = batch.labels[at] = padding;
            }
        };
        return test::run_layout(each.session(DType::f64), 1, {.change_batch = pad});
      };
      const test::LayoutResult one = run(3), other = run(50);
      EXPECT_EQ(one.losses, other.losses);
      test::expect_tensors_near(one.first_gradients, other.first_gradients, 0.0);
      if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace tessera
