#include "bench/configs.h"

#include "bench/configs_json.h"
#include "bench/program.h"
#include "tessera/base/check.h"
#include "tessera/base/json.h"

namespace tessera::bench {
namespace {

void make_gpt(ModelOptions& model) {
  model.position_embedding = PositionEmbedding::learned_absolute;
  model.normalization = Normalization::layer_norm;
  model.activation = Activation::gelu;
}

void make_llama(ModelOptions& model) {
  model.position_embedding = PositionEmbedding::rope;
  model.rope.base = 500000.0;
  model.normalization = Normalization::rms_norm;
  model.activation = Activation::silu;
  model.gated_mlp = true;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = false;
}

ModelOptions model_of(const Json& entry) {
  ModelOptions model;
  model.num_layers = entry.at("layers");
  model.hidden_size = entry.at("hidden");
  model.ffn_hidden_size = entry.at("ffn");
  model.num_attention_heads = entry.at("heads");
  model.num_query_groups = entry.at("kv_heads");
  model.kv_channels = entry.value("head_size", model.hidden_size / model.num_attention_heads);
  model.vocab_size = entry.at("vocab");
  model.max_position_embeddings = entry.at("seq");
  model.tie_embeddings = entry.at("tied");
  model.norm_epsilon = 1e-5;
  model.attention_dropout = model.hidden_dropout = 0;
  entry.at("family") == "llama" ? make_llama(model) : make_gpt(model);
  if (entry.contains("experts")) {
    model.num_experts = entry.at("experts");
    model.moe_router_topk = entry.at("topk");
    model.moe_ffn_hidden_size = model.ffn_hidden_size;
  }
  return model;
}

}  // namespace

Workload workload(const std::string& config, std::int64_t micro_batch) {
  const Json table = parse_json(kConfigsJson, "configs.json");
  if (!table.contains(config)) {
    std::string known;
    for (const auto& [name, entry] : table.items()) known += " " + name;
    fail_input("there is no configuration '{}'; there are:{}", config, known);
  }
  const Json& entry = table.at(config);
  return {config, model_of(entry), entry.at("seq"), micro_batch};
}

std::vector<Workload> workloads(const std::string& list) {
  std::vector<Workload> result;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string item = list.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    check_input(colon != std::string::npos,
                "'{}' is no workload; expected CONFIG:MICRO_BATCH, as llama-60m:4", item);
    result.push_back(
        workload(item.substr(0, colon),
                 positive_number("the micro-batch", item.substr(colon + 1), kMostMicroBatch)));
    begin = end + 1;
  }
  return result;
}

}  // namespace tessera::bench
