#include "bench/products.h"

#include "tessera/nn/lm_head.h"
#include "tessera/tensor/memory.h"

namespace tessera::bench {
namespace {

// How many rows LmHead takes at a time: it is asked, since the number is its own business.
std::int64_t head_chunk_rows(const Workload& workload) {
  const BatchShape shape{workload.seq, workload.micro_batch};
  const ModelOptions& model = workload.model;
  const LmHead head({model.vocab_size, model.hidden_size, model.init_std}, {}, nullptr);
  ArenaLayout measure;
  head.plan_scratch(measure, shape);
  Memory memory(Device{});
  const Tensor block = memory.allocate(MemoryUse::workspace, DType::u8,
                                       {static_cast<std::int64_t>(measure.bytes())});
  ArenaLayout arena(block);
  return head.plan_scratch(arena, shape).maximum.dim(0);
}

// y[rows, out] = x[rows, in] w[out, in]^T, and its two gradients.
void add_linear(std::vector<Product>& products, const std::string& name, std::int64_t rows,
                std::int64_t in, std::int64_t out, double per_step, bool accumulate) {
  products.push_back({name + " forward", rows, out, in, false, true, false, per_step});
  products.push_back({name + " input grad", rows, in, out, false, false, false, per_step});
  products.push_back({name + " weight grad", out, in, rows, true, false, accumulate, per_step});
}

}  // namespace

std::vector<Product> products_of(const Workload& workload) {
  const ModelOptions& model = workload.model;
  const std::int64_t rows = workload.rows();
  const std::int64_t q = model.num_attention_heads * model.kv_channels;
  const std::int64_t kv = model.num_query_groups * model.kv_channels;
  const std::int64_t gates = model.gated_mlp ? 2 : 1;
  std::vector<Product> products;
  const auto layers = static_cast<double>(model.num_layers);
  const auto layer = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    add_linear(products, name, rows, in, out, layers, false);
  };
  // All experts are used equally.
  const auto expert = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    add_linear(products, name, rows * model.moe_router_topk / model.num_experts, in, out,
               layers * static_cast<double>(model.num_experts), false);
  };
  layer("qkv", model.hidden_size, q + 2 * kv);
  layer("attention out", q, model.hidden_size);
  if (model.num_experts > 0) {
    expert("expert up", model.hidden_size, gates * model.moe_ffn_hidden_size);
    expert("expert down", model.moe_ffn_hidden_size, model.hidden_size);
  } else {
    layer("mlp up", model.hidden_size, gates * model.ffn_hidden_size);
    layer("mlp down", model.ffn_hidden_size, model.hidden_size);
  }
  const std::int64_t chunk = head_chunk_rows(workload);
  const double chunks = static_cast<double>(rows) / static_cast<double>(chunk);
  add_linear(products, "head chunk", chunk, model.hidden_size, model.vocab_size, chunks, true);
  return products;
}

}  // namespace tessera::bench
