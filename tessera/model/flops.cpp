#include "tessera/model/flops.h"

namespace tessera {

double flops_per_token(const ModelOptions& o, std::int64_t seq) {
  const auto h = static_cast<double>(o.hidden_size);
  const auto q = static_cast<double>(o.num_attention_heads * o.kv_channels);
  const auto kv = static_cast<double>(o.num_query_groups * o.kv_channels);
  const double projections = 2 * h * (q + 2 * kv) + 2 * q * h;
  const double core = 4 * static_cast<double>(seq) * q;
  const double matrices = o.gated_mlp ? 3 : 2;
  const double mlp = 2 * h * static_cast<double>(o.ffn_hidden_size) * matrices;
  const double head = 2 * h * static_cast<double>(o.vocab_size);
  return 3 * (static_cast<double>(o.num_layers) * (projections + core + mlp) + head);
}

}  // namespace tessera
