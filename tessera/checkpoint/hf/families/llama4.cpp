// Llama 4 (text): layers with RoPE attend to chunks and normalise queries and keys without weights;
// every few layers there is none of this, and queries are scaled by their position. Some layers or
// all have experts: each token goes to one of them, whose input its sigmoid score multiplies, and
// to a shared expert of the same width. The matrices of all experts of a layer are one tensor,
// transposed.
#include <algorithm>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"
#include "tessera/spec/model_spec.h"

namespace tessera {
namespace {

constexpr LlamaStyle kLlama4Style{.vocab_size = 202048,
                                  .hidden_size = 5120,
                                  .ffn_hidden_size = 8192,
                                  .layers = 48,
                                  .heads = 40,
                                  .key_value_heads = 8,
                                  .head_size = 128,
                                  .positions = 131072,
                                  .epsilon = 1e-5,
                                  .rope = {.percent = "", .standard_base = 500000.0}};
constexpr HfExpertKeys kLlama4Keys{.count = "num_local_experts", .experts = 16, .per_token = 1};
constexpr HfExpertNames kLlama4Names{.mlp = "feed_forward.",
                                     .router = "feed_forward.router",
                                     .gate_up_stack = "feed_forward.experts.gate_up_proj",
                                     .down_stack = "feed_forward.experts.down_proj",
                                     .stacks_transposed = true,
                                     .shared = "feed_forward.shared_expert"};
constexpr std::string_view kChunkedAttention = "chunked_attention";
constexpr std::string_view kFullAttention = "full_attention";
constexpr std::int64_t kStandardChunk = 8192;

bool has_rope(const ModelOptions& options, std::int64_t layer) {
  return options.no_rope_freq == 0 || (layer + 1) % options.no_rope_freq != 0;
}

// A list of a value for each layer, maybe longer; null if it is absent.
const Json* layer_list(const JsonFields& config, const ModelOptions& options,
                       std::string_view key) {
  if (!config.has(key) || config.json()[key].empty()) return nullptr;
  const Json& list = config.json()[key];
  check_input(list.is_array() && list.size() >= static_cast<std::size_t>(options.num_layers),
              "{}: {} must be a list of {} values, one for each layer", config.what(), key,
              options.num_layers);
  return &list;
}

// Every N-th layer has no RoPE.
void read_no_rope_layers(const JsonFields& config, ModelOptions& options) {
  const std::int64_t interval = config.integer("no_rope_layer_interval", 4, 1, kMaxHfLayers);
  options.no_rope_freq = interval <= options.num_layers ? interval : 0;
  if (const Json* uses = layer_list(config, options, "no_rope_layers")) {
    const auto end = uses->begin() + options.num_layers;
    const auto first = std::find(uses->begin(), end, 0);
    options.no_rope_freq = first == end ? 0 : std::distance(uses->begin(), first) + 1;
    for (std::int64_t i = 0; i < options.num_layers; ++i)
      check_input(
          (*uses)[static_cast<std::size_t>(i)] == (has_rope(options, i) ? 1 : 0),
          "{}: no_rope_layers[{}] is {:.60}: layers without RoPE (0) are supported as every "
          "N-th layer only, the others have 1",
          config.what(), i, (*uses)[static_cast<std::size_t>(i)].dump());
  }
  check_input(options.no_rope_freq != 1, "{}: a model without any layer with RoPE is not supported",
              config.what());
}

void read_chunks(const JsonFields& config, ModelOptions& options) {
  options.attention_chunk =
      config.integer("attention_chunk_size", kStandardChunk, 1, kMaxHfPositions);
  const Json* types = layer_list(config, options, "layer_types");
  if (types == nullptr) return;
  const auto end = types->begin() + options.num_layers;
  if (std::count(types->begin(), end, kFullAttention) == options.num_layers)
    options.attention_chunk = 0;
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    const bool chunked = options.attention_chunk > 0 && has_rope(options, i);
    const Json& type = (*types)[static_cast<std::size_t>(i)];
    check_input(
        type == (chunked ? kChunkedAttention : kFullAttention),
        "{}: layer_types[{}] is {:.60}: chunks are supported in all layers with RoPE, or in "
        "none",
        config.what(), i, type.dump());
  }
}

void read_temperature(const JsonFields& config, ModelOptions& options) {
  if (!config.boolean("attn_temperature_tuning", true) || options.no_rope_freq == 0) return;
  options.temperature_scale = config.number("attn_scale", 0.1, 0.0, 1e6);
  options.temperature_floor = config.integer("floor_scale", 8192, 1, kMaxHfPositions);
}

void read_expert_layers(const JsonFields& config, ModelOptions& options) {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(options.num_layers), 0);
  if (config.has("moe_layers")) {
    const Json& listed = config.json()["moe_layers"];
    check_input(listed.is_array(), "{}: moe_layers must be a list of layers", config.what());
    for (const Json& layer : listed) {
      check_input(layer.is_number_integer() && layer >= 0 && layer < options.num_layers,
                  "{}: moe_layers has {:.60}: expected numbers of layers below {}", config.what(),
                  layer.dump(), options.num_layers);
      layers[layer.get<std::size_t>()] = 1;
    }
  } else {
    const std::int64_t step = config.integer("interleave_moe_layer_step", 1, 1, kMaxHfLayers);
    for (std::int64_t i = step - 1; i < options.num_layers; i += step)
      layers[static_cast<std::size_t>(i)] = 1;
  }
  set_expert_layers(config, options, std::move(layers));
}

void read_llama4(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kLlama4Style);
  read_attention_bias(config, options);
  options.rotary_interleaved = true;
  read_no_rope_layers(config, options);
  read_chunks(config, options);
  read_temperature(config, options);
  if (config.boolean("use_qk_norm", true)) options.qk_norm = QkNorm::l2;
  options.moe_ffn_hidden_size = options.moe_shared_ffn = options.ffn_hidden_size;
  options.ffn_hidden_size = config.integer("intermediate_size_mlp", 16384, 1, 4 * kMaxHfWidth);
  read_experts(config, options, kLlama4Keys, false);
  check_input(options.moe_router_topk == 1,
              "{}: num_experts_per_tok = {} is not supported for this family: expected 1",
              config.what(), options.moe_router_topk);
  options.moe_router_pre_softmax = false;
  options.moe_router_score = RouterScore::sigmoid;
  options.moe_probs_on_input = true;
  read_expert_layers(config, options);
}

void write_llama4(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kLlama4Style);
  config["attention_bias"] = options.qkv_bias;
  config["intermediate_size"] = options.moe_ffn_hidden_size;
  config["intermediate_size_mlp"] = options.ffn_hidden_size;
  config["use_qk_norm"] = options.qk_norm == QkNorm::l2;
  write_experts(options, config, kLlama4Keys);
  config["attention_chunk_size"] =
      options.attention_chunk > 0 ? options.attention_chunk : kStandardChunk;
  config["attn_temperature_tuning"] = options.temperature_scale > 0;
  config["attn_scale"] = options.temperature_scale;
  config["floor_scale"] = options.temperature_floor;
  Json& experts = config["moe_layers"] = Json::array();
  Json& rope = config["no_rope_layers"] = Json::array();
  Json& types = config["layer_types"] = Json::array();
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    if (has_experts(options, i)) experts.push_back(i);
    rope.push_back(has_rope(options, i) ? 1 : 0);
    types.push_back(options.attention_chunk > 0 && has_rope(options, i) ? kChunkedAttention
                                                                        : kFullAttention);
  }
}

std::vector<HfTensor> llama4_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, kLlama4Names);
}

}  // namespace

extern const HfFamily kLlama4{.name = "llama4_text",
                              .architecture = "Llama4ForCausalLM",
                              .read = read_llama4,
                              .write = write_llama4,
                              .tensors = llama4_tensors};

}  // namespace tessera
