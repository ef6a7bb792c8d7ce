#include "tessera/engine/context_work.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "tessera/base/check.h"
#include "tessera/spec/model_spec.h"

namespace tessera {
namespace {

int position_parts(const ParallelOptions& parallel, std::int64_t layer) {
  switch (parallel.cp_comm_type(layer)) {
    case CpCommType::p2p:
    case CpCommType::all_gather: return parallel.context;
    case CpCommType::a2a: return 1;
    case CpCommType::a2a_p2p: return parallel.context / parallel.context_heads();
  }
  fail("unknown kind of context parallelism");
}

// The keys that a query sees, in the document that begins at `start`.
std::int64_t seen_keys(const ContextWork::Mask& mask, std::int64_t position, std::int64_t start) {
  std::int64_t keys = position - start + 1;
  if (mask.window > 0) keys = std::min(keys, mask.window);
  if (mask.chunk > 0) keys = std::min(keys, (position - start) % mask.chunk + 1);
  return keys;
}

ContextWork::Mask mask_of(const AttentionLayerSpec& spec) { return {spec.window, spec.chunk}; }
ContextWork::Mask mask_of(const LatentAttentionSpec& spec) { return {spec.window, 0}; }

// The pairs of each part of the sequence, in all samples.
std::vector<double> pairs_by_part(const HostBatch& batch, int parts,
                                  const ContextWork::Mask& mask) {
  std::vector<double> pairs(static_cast<std::size_t>(parts));
  const std::int64_t seq = batch.seq_length, chunk = seq / (2 * std::int64_t{parts});
  for (std::int64_t b = 0; b < batch.batch; ++b) {
    const std::int32_t* next = batch.documents.data() + b * seq;  // starts, then seq
    std::int64_t start = 0;
    for (std::int64_t s = 0; s < seq; ++s) {
      if (*next == s) start = *next++;
      const std::int64_t number = s / chunk;
      const std::int64_t part = number < parts ? number : 2 * parts - 1 - number;
      pairs[static_cast<std::size_t>(part)] += static_cast<double>(seen_keys(mask, s, start));
    }
  }
  return pairs;
}

}  // namespace

ContextWork::ContextWork(const SessionOptions& options) : divisions_(divisions_of(options)) {}

std::vector<ContextWork::Division> ContextWork::divisions_of(const SessionOptions& options) {
  std::vector<Division> all;
  if (options.parallel.context == 1 || !options.documents) return all;
  const ModelSpec model = model_spec(options.model);
  for (const LayerSpec* layer : all_layers(model)) {
    const auto [number, mask] = std::visit(
        [](const auto& mixer) { return std::pair(mixer.layer, mask_of(mixer)); }, layer->mixer);
    const int parts = position_parts(options.parallel, number);
    const auto same = [&, mask = mask](const Division& each) {
      return each.parts == parts && each.mask == mask;
    };
    if (const auto at = std::ranges::find_if(all, same); at != all.end())
      ++at->layers;
    else
      all.push_back({parts, mask, 1});
  }
  const auto by_heads = [](const Division& each) { return each.parts == 1; };
  return std::ranges::all_of(all, by_heads) ? std::vector<Division>() : all;
}

void ContextWork::add(const HostBatch& batch) {
  if (batch.documents.empty()) return;
  for (const Division& division : divisions_) {
    const std::vector<double> pairs = pairs_by_part(batch, division.parts, division.mask);
    busiest_ += division.layers * std::ranges::max(pairs) * division.parts;
    all_ += division.layers * std::accumulate(pairs.begin(), pairs.end(), 0.0);
  }
}

double ContextWork::take_imbalance() {
  const double busiest = std::exchange(busiest_, 0.0), all = std::exchange(all_, 0.0);
  return all > 0 ? busiest / all : 1.0;
}

}  // namespace tessera
