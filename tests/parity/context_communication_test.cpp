// What context-parallel ranks communicate: as many bytes as docs/context_parallelism.md says, no
// other call, and nothing that is not waited for.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parity/context_case.h"
#include "tests/support/lazy_communicator.h"
#include "tests/support/step_counts.h"

namespace tessera {
namespace {

constexpr BatchShape kCounted{48, 2};

// What one layer adds, by call.
CommCounts added(const CommCounts& more, const CommCounts& fewer) {
  CommCounts result;
  for (const auto& [call, count] : more) {
    const auto before = fewer.find(call);
    const CommCount less = before == fewer.end() ? CommCount{} : before->second;
    const CommCount rest{count.calls - less.calls, count.bytes - less.bytes};
    if (rest != CommCount{}) result[call] = rest;
  }
  return result;
}

test::StepCounts layer_counts(const ContextCase& c, DType dtype) {
  SessionOptions options = c.session(dtype);
  options.shape = kCounted;
  options.model.max_position_embeddings = kCounted.seq;
  options.microbatches = 1;
  const test::StepCounts two = test::step_counts(options, 2), three = test::step_counts(options, 3);
  test::StepCounts layer{added(three.forward, two.forward), added(three.both, two.both)};
  layer.both.erase("all_reduce");  // of the layer's weight gradients
  return layer;
}

int heads_size(const ContextCase& c) {
  if (c.kinds.front() == CpCommType::a2a) return c.context;
  return c.sizes.empty() ? 1 : c.sizes.front();
}

double sent_bytes(const CommCounts& counts, const ContextCase& c) {
  double sum = 0, received = 0;
  for (const auto& [call, count] : counts) {
    const auto bytes = static_cast<double>(count.bytes);
    if (call == "recv")
      received = bytes;
    else if (call == "send")
      sum += bytes;
    else
      sum += test::ring_bytes(call, bytes, call == "all_to_all_rows" ? heads_size(c) : c.context);
  }
  const auto sends = counts.find("send");
  EXPECT_EQ(received, sends == counts.end() ? 0 : static_cast<double>(sends->second.bytes));
  return sum;
}

// Elements that a rank sends for a layer: in the model's type, and in the accumulator's.
struct Elements {
  double forward = 0, backward = 0, backward_sums = 0;
};

// n rows of H query and K key/value heads of D channels. Groups of A ranks exchange heads, and a
// ring (or a gather) of R / A ranks has A n rows of the heads of one of them.
Elements expected_elements(const ContextCase& c) {
  const double n = static_cast<double>(kCounted.rows()) / c.context, channels = 8;
  const double a = heads_size(c), ring = c.context / a;
  const auto heads = static_cast<double>(c.heads), groups = static_cast<double>(c.groups);
  const double kv = std::max(1.0, groups / a);  // on a rank; several may have copies of a head
  const double q_exchange = (a - 1) * n * 2 * heads / a * channels;
  const double kv_exchange = (a - 1) * n * 2 * kv * channels;
  const double hops = (ring - 1) * a * n * 2 * kv * channels;
  Elements all{q_exchange + kv_exchange + hops, q_exchange + hops, hops};
  (groups < a ? all.backward_sums : all.backward) += kv_exchange;
  return all;
}

TEST(ContextCommunication, BytesAreThoseOfTheFormulas) {
  std::vector<ContextCase> cases;
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather})
    for (const int context : {2, 3, 4, 8})
      cases.push_back({.family = "llama", .context = context, .kinds = {kind}});
  for (const auto& [context, heads, groups] :
       {std::array{2, 4, 4}, {3, 6, 6}, {4, 4, 4}, {8, 8, 8}, {4, 8, 2}})
    cases.push_back({.family = "llama",
                     .context = context,
                     .kinds = {CpCommType::a2a},
                     .groups = groups,
                     .heads = heads});
  for (const auto& [context, groups] : {std::array{4, 2}, {4, 4}, {4, 1}, {8, 2}})
    cases.push_back({.family = "llama",
                     .context = context,
                     .kinds = {CpCommType::a2a_p2p},
                     .sizes = {2, context / 2},
                     .groups = groups});
  if (!test::all_cases()) std::erase_if(cases, [](const auto& c) { return c.context > 4; });
  for (const ContextCase& c : cases)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (dtype == DType::f32 && !test::all_cases()) continue;
      SCOPED_TRACE(c.text());
      const test::StepCounts counts = layer_counts(c, dtype);
      const Elements elements = expected_elements(c);
      const auto size = static_cast<double>(element_size(dtype));
      const double forward = size * elements.forward;
      EXPECT_DOUBLE_EQ(sent_bytes(counts.forward, c), forward);
      EXPECT_DOUBLE_EQ(sent_bytes(counts.both, c),
                       forward + size * elements.backward + 4 * elements.backward_sums);
    }
}

// What layers do not wait for never happens here, and messages leave when they are waited for.
TEST(ContextCommunication, WaitsForAllThatItAsksFor) {
  const auto lazy = [](std::shared_ptr<Communicator> world) {
    return std::make_shared<test::LazyCommunicator>(std::move(world), true);
  };
  const ContextCase c{.context = 4, .tensor = 2, .sequence_parallel = true, .dropout = 0.1};
  for (const std::string family : {"llama", "latent"})
    for (const auto recompute : {RecomputeGranularity::none, RecomputeGranularity::selective}) {
      ContextCase base = c;
      base.family = family;
      base.recompute = recompute;
      base.heads = 8;
      base.groups = family == "latent" ? 8 : 2;
      if (!test::all_cases() && (family == "latent") == (recompute == RecomputeGranularity::none))
        continue;
      for (const ContextCase& each : of_every_kind({base})) {
        SCOPED_TRACE(each.text());
        const SessionOptions options = each.session(DType::f64);
        test::expect_same_layouts(test::run_layout(options, 2, {.wrap = lazy}),
                                  test::run_layout(options, 2), {0, 0, 0});
      }
    }
}

}  // namespace
}  // namespace tessera
