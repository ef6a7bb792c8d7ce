#include "bench/layer_traffic.h"

#include <string>

#include "tessera/comm/recording.h"
#include "tessera/engine/train_step.h"

namespace tessera::bench {
namespace {

using std::int64_t;

SessionOptions gpt(int heads, int64_t hidden, int64_t seq, int64_t batch) {
  SessionOptions options;
  ModelOptions& model = options.model;
  model.hidden_size = hidden;
  model.ffn_hidden_size = 4 * hidden;
  model.num_attention_heads = model.num_query_groups = heads;
  model.kv_channels = hidden / heads;
  model.vocab_size = 64;
  model.max_position_embeddings = seq;
  model.attention_dropout = model.hidden_dropout = 0;
  options.shape = {seq, batch};
  return options;
}

HostBatch zeros(const BatchShape& shape) {
  const auto n = static_cast<std::size_t>(shape.rows());
  const auto b = static_cast<std::size_t>(shape.batch);
  HostBatch batch{shape.batch,
                  shape.seq,
                  std::vector<std::int32_t>(n),
                  std::vector<std::int32_t>(n),
                  std::vector<float>(n, 1),
                  std::vector<std::int32_t>(n),
                  std::vector<int64_t>(b)};
  return batch;
}

// Of rank 0 in forward and backward, by call.
CommCounts counts_of(SessionOptions options, int64_t layers) {
  options.model.num_layers = layers;
  CommCounts result;
  run_ranks(options.parallel.tensor * options.parallel.context, 1, [&](Rank& rank) {
    CommCounts counts;
    Rank recorded = rank;
    recorded.world = make_recording_communicator(rank.world, counts);
    Session session(options, recorded);
    counts.clear();
    const HostBatch batch = zeros(options.shape);
    compute_gradients(
        session, [&]() -> const HostBatch& { return batch; }, LossAverage::per_microbatch);
    if (rank.rank == 0) result = counts;
  });
  return result;
}

// Bytes that a rank sends when calls go around rings of n ranks: one layer's, which is what a
// second layer adds. Sums of norms and vectors are `beside` where products do not sum, and so are
// those of weight gradients over context-parallel ranks.
LayerTraffic layer_of(const SessionOptions& options, int n) {
  const CommCounts one = counts_of(options, 1);
  CommCounts two = counts_of(options, 2);
  const bool tensor_2d = options.parallel.tensor_2d > 0;
  LayerTraffic traffic;
  for (const auto& [call, count] : two) {
    const auto found = one.find(call);
    const int64_t before = found == one.end() ? 0 : found->second.bytes;
    const double share = call == "send" ? 1.0 : (call == "all_reduce" ? 2.0 : 1.0) * (n - 1) / n;
    const double bytes = share * static_cast<double>(count.bytes - before);
    bool product = true;
    if (tensor_2d) product = call == "broadcast" || call == "reduce_scatter";
    if (options.parallel.context > 1) product = call != "all_reduce" && call != "recv";
    (product ? traffic.counted : traffic.beside) += bytes;
  }
  return traffic;
}

}  // namespace

LayerTraffic one_dimensional(int ranks, int64_t hidden, int64_t seq, int64_t batch) {
  SessionOptions options = gpt(ranks, hidden, seq, batch);
  options.parallel.tensor = ranks;
  LayerTraffic traffic = layer_of(options, ranks);
  traffic.formula = 8.0 * static_cast<double>(seq * batch * hidden) * (ranks - 1) / ranks * 4;
  return traffic;
}

LayerTraffic two_dimensional(int side, int64_t hidden, int64_t seq, int64_t batch) {
  SessionOptions options = gpt(side * side, hidden, seq, batch);
  options.parallel.tensor_2d = side;
  options.parallel.tensor = side * side;
  LayerTraffic traffic = layer_of(options, side);
  const double elements = static_cast<double>(7 * seq * batch * hidden + 12 * hidden * hidden);
  traffic.formula = 3.0 * (side - 1) / (side * side) * elements * 4;
  return traffic;
}

// Elements of ring: keys and values around `ring` ranks of `rows` rows, `heads` of them, once
// forward and twice backward. Of heads: q, k, v and output exchanged by `ranks`, forward and
// backward.
LayerTraffic context_parallel(CpCommType kind, int ranks, int64_t groups, int64_t hidden,
                              int64_t seq, int64_t batch) {
  constexpr int kHeads = 8;
  SessionOptions options = gpt(kHeads, hidden, seq, batch);
  options.model.num_query_groups = groups;
  options.parallel.context = ranks;
  options.parallel.cp_comm_types = {kind};
  const int exchange = kind == CpCommType::a2a ? ranks : kind == CpCommType::a2a_p2p ? 2 : 1;
  if (kind == CpCommType::a2a_p2p) options.parallel.hierarchical_context = {2, ranks / 2};
  LayerTraffic traffic = layer_of(options, kind == CpCommType::a2a_p2p ? 2 : ranks);
  const double rows = static_cast<double>(seq * batch) / ranks;
  const double size = static_cast<double>(hidden) / kHeads;
  const double hops = static_cast<double>(ranks) / exchange - 1;
  const auto kv = static_cast<double>(2 * groups), all = static_cast<double>(2 * kHeads) + kv;
  const double ring = 3 * hops * rows * kv * size;
  const double heads = 2.0 * (exchange - 1) / exchange * rows * all * size;
  traffic.formula = 4 * (ring + heads);
  return traffic;
}

double two_dimensional_pays_from(int side) {
  const double ranks = side * side;
  const double one_d = 8 * (ranks - 1) / ranks;  // times tokens times hidden
  const double two_d = 3 * (side - 1) / ranks;   // times 7 tokens hidden + 12 hidden^2
  return 12 * two_d / (one_d - 7 * two_d);
}

}  // namespace tessera::bench
