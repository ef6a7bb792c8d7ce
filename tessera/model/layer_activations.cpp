#include "tessera/model/layer_activations.h"

#include <fmt/core.h>

#include <algorithm>

namespace tessera {
namespace {

using std::int64_t;

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The sizes of one rank.
struct Local {
  int64_t rows;  // of the products: S B of its positions and, with 2-D tensor parallelism, samples
  int64_t kept;  // of the residual stream
  int64_t hidden;  // channels of the residual stream
  int64_t heads, groups, ffn;
  int64_t batch, seq;
};

Local local_sizes(const ModelOptions& m, const ParallelOptions& p, const BatchShape& shape) {
  const int64_t q = std::max(1, p.tensor_2d);                  // 2-D splits samples, and channels
  const int64_t t = p.tensor_2d > 0 ? p.tensor_2d : p.tensor;  // what heads and ffn are split over
  const int64_t rows = shape.rows() / q / p.context;
  return {rows,
          p.sequence_parallel ? rows / p.tensor : rows,
          m.hidden_size / q,
          m.num_attention_heads / t,
          std::max<int64_t>(1, m.num_query_groups / t),
          m.ffn_hidden_size / t,
          shape.batch / q,
          shape.seq / p.context};
}

class Terms {
 public:
  Terms(const ModelOptions& model, const Local& local)
      : model_(model),
        local_(local),
        element_(static_cast<int64_t>(element_size(model.dtype))),
        number_(static_cast<int64_t>(element_size(accumulator_type(model.dtype)))) {}

  void stream(const char* name) { add(name, "S B h", local_.kept * local_.hidden * element_); }
  void norm(const char* input, const char* output) {
    stream(input);
    stream(output);
    add(fmt::format("{}: mean, 1/deviation", output), "2 S B", local_.kept * 2 * number_);
  }
  void attention(bool core) {
    const auto& [rows, kept, hidden, heads, groups, ffn, batch, seq] = local_;
    const int64_t d = model_.kv_channels;
    add("q, k, v", "S B (H + 2 K) D", rows * (heads + 2 * groups) * d * element_);
    if (model_.qk_norm != QkNorm::none) {
      add("normed q, k", "S B (H + K) D", rows * (heads + groups) * d * element_);
      add("q norm: mean, 1/deviation", "2 S B H", rows * heads * 2 * number_);
      add("k norm: mean, 1/deviation", "2 S B K", rows * groups * 2 * number_);
    }
    if (!core) return;
    add("attention output", "S B H D", rows * heads * d * element_);
    add("log-sum-exp", "S B H", batch * heads * seq * number_);
  }
  void mlp() {
    const bool gated = model_.gated_mlp;
    add(gated ? "gate, up" : "before activation", gated ? "2 S B F" : "S B F",
        local_.rows * (gated ? 2 : 1) * local_.ffn * element_);
    if (!gated) add("after activation", "S B F", local_.rows * local_.ffn * element_);
  }
  std::vector<ActivationTerm> all() && { return std::move(terms_); }

 private:
  void add(const std::string& name, const std::string& formula, int64_t bytes) {
    terms_.push_back({name, formula, aligned(bytes)});
  }

  const ModelOptions& model_;
  const Local& local_;
  int64_t element_;
  int64_t number_;  // of statistics
  std::vector<ActivationTerm> terms_;
};

}  // namespace

std::vector<ActivationTerm> layer_activations(const ModelOptions& model,
                                              const RecomputeOptions& recompute,
                                              const ParallelOptions& parallel,
                                              const BatchShape& shape) {
  Local local = local_sizes(model, parallel, shape);
  const bool full = recompute.granularity == RecomputeGranularity::full;
  if (full && recompute.distribute_saved_activations) local.kept /= parallel.tensor;
  Terms terms(model, local);
  if (full) {
    terms.stream("input");
    return std::move(terms).all();
  }
  terms.norm("input", "norm 1");
  terms.attention(recompute.granularity == RecomputeGranularity::none);
  terms.norm("after attention", "norm 2");
  terms.mlp();
  return std::move(terms).all();
}

int64_t total_bytes(const std::vector<ActivationTerm>& terms) {
  int64_t sum = 0;
  for (const ActivationTerm& term : terms) sum += term.bytes;
  return sum;
}

}  // namespace tessera
