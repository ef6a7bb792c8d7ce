#include "tessera/checkpoint/hf/hf_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/hf/hf_rope.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

// Far above any model that exists, and low enough that no product of three overflows.
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 22;
constexpr std::int64_t kMaxHeads = std::int64_t{1} << 14;
constexpr std::int64_t kMaxHeadSize = std::int64_t{1} << 14;
constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 31;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;

// What transformers takes when a key is absent. Zero: heads as many as num_attention_heads, and
// head size hidden_size / num_attention_heads.
struct Defaults {
  std::string_view family;
  std::int64_t vocab_size, ffn_hidden_size, key_value_heads, head_size, positions;
};
constexpr std::array<Defaults, 4> kDefaults{{{"llama", 32000, 11008, 0, 0, 2048},
                                             {"mistral", 32000, 14336, 8, 0, 131072},
                                             {"qwen2", 151936, 22016, 32, 0, 32768},
                                             {"qwen3", 151936, 22016, 32, 128, 32768}}};

struct TorchType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TorchType, 4> kTorchTypes{{{"float64", DType::f64},
                                                {"float32", DType::f32},
                                                {"bfloat16", DType::bf16},
                                                {"float16", DType::f16}}};

void read_dtype(HfModel& model, const JsonFields& config) {
  model.dtype = config.text(config.either("dtype", "torch_dtype"), "");
  if (model.dtype.empty()) return;
  const auto known = std::ranges::find(kTorchTypes, model.dtype, &TorchType::name);
  check_input(known != kTorchTypes.end(),
              "{}: dtype '{:.60}' is not supported: expected float64, float32, bfloat16 or float16",
              config.what(), model.dtype);
  model.options.dtype = known->dtype;
}

void check_activation(const JsonFields& config, std::string_view key, std::string_view standard,
                      std::string_view synonym) {
  const std::string name = config.text(key, standard);
  check_input(name == standard || name == synonym,
              "{}: {} '{:.60}' is not supported for this family: expected {} or {}", config.what(),
              key, name, standard, synonym);
}

void refuse_unless(const JsonFields& config, std::string_view key, bool expected) {
  check_input(config.boolean(key, expected) == expected, "{}: {} = {} is not supported",
              config.what(), key, !expected);
}

// The size of a head when the config does not give one.
std::int64_t even_share(const ModelOptions& options, const JsonFields& config) {
  check_input(options.hidden_size % options.num_attention_heads == 0,
              "{}: the hidden size {} is not a multiple of the {} attention heads", config.what(),
              options.hidden_size, options.num_attention_heads);
  const std::int64_t share = options.hidden_size / options.num_attention_heads;
  check_input(share <= kMaxHeadSize,
              "{}: {} attention heads of size {} each: a head has at most {}", config.what(),
              options.num_attention_heads, share, kMaxHeadSize);
  return share;
}

// One rate stands for the dropout after the embedding and after each sublayer.
double read_hidden_dropout(const JsonFields& config) {
  const double residual = config.number("resid_pdrop", 0.1, 0.0, 0.999);
  const double embedding = config.number("embd_pdrop", 0.1, 0.0, 0.999);
  check_input(residual == embedding,
              "{}: resid_pdrop {} and embd_pdrop {} differ, and there is one hidden dropout: make "
              "them equal",
              config.what(), residual, embedding);
  return residual;
}

void read_gpt2(ModelOptions& options, const JsonFields& config) {
  const auto size = [&](std::string_view key, std::string_view other, std::int64_t fallback,
                        std::int64_t high) {
    return config.integer(config.either(key, other), fallback, 1, high);
  };
  options.num_layers = size("n_layer", "num_hidden_layers", 12, kMaxLayers);
  options.hidden_size = size("n_embd", "hidden_size", 768, kMaxWidth);
  options.num_attention_heads = size("n_head", "num_attention_heads", 12, kMaxHeads);
  options.max_position_embeddings =
      size("n_positions", "max_position_embeddings", 1024, kMaxPositions);
  options.num_query_groups = options.num_attention_heads;
  options.kv_channels = even_share(options, config);
  options.ffn_hidden_size = config.integer("n_inner", 4 * options.hidden_size, 1, 4 * kMaxWidth);
  options.vocab_size = config.integer("vocab_size", 50257, 1, kMaxVocabulary);
  options.norm_epsilon = config.number("layer_norm_epsilon", 1e-5, 1e-30, 1.0);
  options.tie_embeddings = config.boolean("tie_word_embeddings", true);
  options.attention_dropout = config.number("attn_pdrop", 0.1, 0.0, 0.999);
  options.hidden_dropout = read_hidden_dropout(config);
  check_activation(config, "activation_function", "gelu_new", "gelu_pytorch_tanh");
  refuse_unless(config, "scale_attn_weights", true);
  refuse_unless(config, "scale_attn_by_inverse_layer_idx", false);
  refuse_unless(config, "add_cross_attention", false);
}

void read_sizes(ModelOptions& options, const JsonFields& config, const Defaults& defaults) {
  options.num_layers = config.integer("num_hidden_layers", 32, 1, kMaxLayers);
  options.hidden_size = config.integer("hidden_size", 4096, 1, kMaxWidth);
  options.ffn_hidden_size =
      config.integer("intermediate_size", defaults.ffn_hidden_size, 1, 4 * kMaxWidth);
  options.num_attention_heads = config.integer("num_attention_heads", 32, 1, kMaxHeads);
  options.vocab_size = config.integer("vocab_size", defaults.vocab_size, 1, kMaxVocabulary);
  options.max_position_embeddings =
      config.integer("max_position_embeddings", defaults.positions, 1, kMaxPositions);
  const bool own_groups = config.contains("num_key_value_heads") || defaults.key_value_heads == 0;
  options.num_query_groups = config.integer(
      "num_key_value_heads", own_groups ? options.num_attention_heads : defaults.key_value_heads, 1,
      kMaxHeads);
  check_input(options.num_attention_heads % options.num_query_groups == 0,
              "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}",
              config.what(), options.num_attention_heads, options.num_query_groups);
  const bool own_size = config.contains("head_dim") || defaults.head_size == 0;
  options.kv_channels = config.has("head_dim")
                            ? config.integer("head_dim", 0, 1, kMaxHeadSize)
                            : (own_size ? even_share(options, config) : defaults.head_size);
}

// layer_types (transformers 5) repeats what the window keys say; anything else is refused.
void check_layer_types(const ModelOptions& options, const JsonFields& config) {
  if (!config.has("layer_types")) return;
  const Json& types = config.json()["layer_types"];
  check_input(types.is_array() && types.size() == static_cast<std::size_t>(options.num_layers),
              "{}: layer_types must be a list of {} names, one for each layer", config.what(),
              options.num_layers);
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    const bool sliding = options.attention_window > 0 && i >= options.window_first_layer;
    const std::string_view expected = sliding ? "sliding_attention" : "full_attention";
    const Json& type = types[static_cast<std::size_t>(i)];
    check_input(type == expected,
                "{}: layer_types[{}] is {:.60}, but use_sliding_window, sliding_window and "
                "max_window_layers make it \"{}\": only windows from one layer on are supported",
                config.what(), i, type.dump(), expected);
  }
}

void read_window(ModelOptions& options, const JsonFields& config, const std::string& family) {
  if (family == "llama") return;
  const bool qwen = family != "mistral";
  const bool used = !qwen || config.boolean("use_sliding_window", false);
  const std::int64_t standard = config.contains("sliding_window") ? 0 : 4096;
  const std::int64_t window = config.integer("sliding_window", standard, 1, kMaxPositions);
  const std::int64_t first =
      qwen ? config.integer("max_window_layers", 28, 0, kMaxPositions) : std::int64_t{0};
  if (used && first < options.num_layers) {
    options.attention_window = window;
    options.window_first_layer = window > 0 ? first : 0;
  }
  check_layer_types(options, config);
}

void read_biases(ModelOptions& options, const JsonFields& config, const std::string& family) {
  const bool has_choice = family == "llama" || family == "qwen3";
  const bool all = has_choice && config.boolean("attention_bias", false);
  options.qkv_bias = all || family == "qwen2";
  options.attention_output_bias = all;
  options.mlp_bias = family == "llama" && config.boolean("mlp_bias", false);
}

void read_llama_like(ModelOptions& options, const JsonFields& config, const std::string& family) {
  read_sizes(options, config, *std::ranges::find(kDefaults, family, &Defaults::family));
  options.position_embedding = PositionEmbedding::rope;
  options.rope = read_hf_rope(config, options.max_position_embeddings);
  const auto rotated =
      static_cast<std::int64_t>(static_cast<double>(options.kv_channels) * options.rope.percent);
  check_input(rotated >= 2 && rotated % 2 == 0,
              "{}: RoPE turns pairs, but {} of the {} channels of a head would be turned",
              config.what(), rotated, options.kv_channels);
  options.normalization = Normalization::rms_norm;
  options.norm_epsilon = config.number("rms_norm_eps", 1e-6, 1e-30, 1.0);
  options.activation = Activation::silu;
  options.gated_mlp = true;
  check_activation(config, "hidden_act", "silu", "swish");
  options.qk_norm = family == "qwen3" ? QkNorm::per_head : QkNorm::none;
  options.tie_embeddings = config.boolean("tie_word_embeddings", false);
  options.attention_dropout = config.number("attention_dropout", 0.0, 0.0, 0.999);
  options.hidden_dropout = 0.0;
  read_biases(options, config, family);
  read_window(options, config, family);
}

}  // namespace

HfModel parse_hf_config(std::string_view text, const std::string& what) {
  const Json json = parse_json(text, what);
  const JsonFields config(json, what);
  HfModel model;
  model.family = config.text("model_type", "");
  check_input(std::ranges::find(kHfFamilies, model.family) != kHfFamilies.end(),
              "{}: model_type '{:.60}' is not supported: expected one of {}", what, model.family,
              fmt::format("{}", fmt::join(kHfFamilies, ", ")));
  check_input(
      !config.has("quantization_config"),
      "{}: the weights are quantized (quantization_config), which is not supported: convert "
      "them to bfloat16 first",
      what);
  if (model.family == "gpt2")
    read_gpt2(model.options, config);
  else
    read_llama_like(model.options, config, model.family);
  model.options.init_std = config.number("initializer_range", 0.02, 0.0, 100.0);
  read_dtype(model, config);
  return model;
}

HfModel read_hf_config(const fs::path& folder) {
  check_input(fs::is_directory(folder),
              "'{}' is not a folder (nothing is downloaded: a model's files must be there already)",
              folder.string());
  check_input(!holds_checkpoints(folder),
              "'{}' holds Tessera's own checkpoints, no Hugging Face model: use --load",
              folder.string());
  const fs::path path = folder / "config.json";
  return parse_hf_config(read_text_file(path, kMaxConfigBytes), "'" + path.string() + "'");
}

}  // namespace tessera
