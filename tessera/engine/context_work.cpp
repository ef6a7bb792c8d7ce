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

// The pairs of each part of the sequence, in all samples.
std::vector<double> pairs_by_part(const HostBatch& batch, int parts, std::int64_t window) {
  std::vector<double> pairs(static_cast<std::size_t>(parts));
  const std::int64_t seq = batch.seq_length, chunk = seq / (2 * std::int64_t{parts});
  for (std::int64_t b = 0; b < batch.batch; ++b) {
    const std::int32_t* next = batch.documents.data() + b * seq;  // starts, then seq
    std::int64_t start = 0;
    for (std::int64_t s = 0; s < seq; ++s) {
      if (*next == s) start = *next++;
      const std::int64_t keys = s - start + 1, number = s / chunk;
      const std::int64_t part = number < parts ? number : 2 * parts - 1 - number;
      pairs[static_cast<std::size_t>(part)] +=
          static_cast<double>(window > 0 ? std::min(keys, window) : keys);
    }
  }
  return pairs;
}

}  // namespace

ContextWork::ContextWork(const SessionOptions& options) : divisions_(divisions_of(options)) {}

std::vector<ContextWork::Division> ContextWork::divisions_of(const SessionOptions& options) {
  std::vector<Division> all;
  if (options.parallel.context == 1 || !options.documents) return all;
  for (const LayerSpec& layer : model_spec(options.model).layers) {
    const auto [number, window] = std::visit(
        [](const auto& mixer) { return std::pair(mixer.layer, mixer.window); }, layer.mixer);
    const int parts = position_parts(options.parallel, number);
    const auto same = [&, window = window](const Division& each) {
      return each.parts == parts && each.window == window;
    };
    if (const auto at = std::ranges::find_if(all, same); at != all.end())
      ++at->layers;
    else
      all.push_back({parts, window, 1});
  }
  const auto by_heads = [](const Division& each) { return each.parts == 1; };
  return std::ranges::all_of(all, by_heads) ? std::vector<Division>() : all;
}

void ContextWork::add(const HostBatch& batch) {
  if (batch.documents.empty()) return;
  for (const Division& division : divisions_) {
    const std::vector<double> pairs = pairs_by_part(batch, division.parts, division.window);
    busiest_ += division.layers * std::ranges::max(pairs) * division.parts;
    all_ += division.layers * std::accumulate(pairs.begin(), pairs.end(), 0.0);
  }
}

double ContextWork::take_imbalance() {
  const double busiest = std::exchange(busiest_, 0.0), all = std::exchange(all_, 0.0);
  return all > 0 ? busiest / all : 1.0;
}

}  // namespace tessera
