#include "tessera/checkpoint/hf/hf_config.h"

#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/model_difference.h"
#include "tessera/options/limits.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxHfConfigBytes = std::size_t{16} << 20;
constexpr std::string_view kMtpKey = "num_nextn_predict_layers";

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

bool is_mxfp4(const JsonFields& config) {
  if (!config.has("quantization_config")) return false;
  const JsonFields quantization(config.json()["quantization_config"],
                                config.what() + ", quantization_config");
  return quantization.text("quant_method", "") == "mxfp4";
}

HfModel read_model(const Json& json, const std::string& what) {
  const JsonFields config(json, what);
  HfModel model;
  model.family = config.text("model_type", "");
  const HfFamily* family = find_hf_family(model.family);
  check_input(family != nullptr, "{}: model_type '{:.60}' is not supported: expected one of {}",
              what, model.family, hf_family_names());
  model.mxfp4 = family->mxfp4 && is_mxfp4(config);
  check_input(model.mxfp4 || !config.has("quantization_config"),
              "{}: the weights are quantized (quantization_config), which is not supported: "
              "convert them to bfloat16 first",
              what);
  family->read(config, model.options);
  if (family->mtp_layers)
    model.options.mtp_num_layers = config.integer(kMtpKey, 0, 0, kMaxMtpLayers);
  model.options.init_std = config.number("initializer_range", 0.02, 0.0, 100.0);
  read_dtype(model, config);
  return model;
}

Json written_config(const ModelOptions& options, const HfFamily& family) {
  Json config = {{"architectures", {family.architecture}},
                 {"model_type", family.name},
                 {"vocab_size", options.vocab_size},
                 {"tie_word_embeddings", options.tie_embeddings},
                 {"initializer_range", options.init_std},
                 {"torch_dtype", torch_name(options.dtype)},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"pad_token_id", nullptr}};
  family.write(options, config);
  if (family.mtp_layers) config[std::string(kMtpKey)] = options.mtp_num_layers;
  return config;
}

}  // namespace

HfModel parse_hf_config(std::string_view text, const std::string& what) {
  return read_model(parse_json(text, what), what);
}

HfModel read_hf_config(const fs::path& folder) {
  check_input(fs::is_directory(folder),
              "'{}' is not a folder (nothing is downloaded: a model's files must be there already)",
              folder.string());
  check_input(!holds_checkpoints(folder),
              "'{}' holds Tessera's own checkpoints, no Hugging Face model: use --load",
              folder.string());
  const fs::path path = folder / "config.json";
  return parse_hf_config(read_text_file(path, kMaxHfConfigBytes), "'" + path.string() + "'");
}

std::string_view torch_name(DType type) {
  const auto known = std::ranges::find(kTorchTypes, type, &TorchType::dtype);
  if (known == kTorchTypes.end()) fail_dtype(type, "hf_config_for");
  return known->name;
}

std::string hf_family_problem(const ModelOptions& options, std::string_view name) {
  const HfFamily& family = hf_family(name);
  check(options.num_layers > 0 && options.hidden_size > 0 && options.ffn_hidden_size > 0 &&
            options.num_attention_heads > 0 && options.num_query_groups > 0 &&
            options.kv_channels > 0 && options.vocab_size > 0,
        "model options must be complete before they are named after a family");
  if (family.heads_divide_width && options.hidden_size % options.num_attention_heads != 0)
    return fmt::format(
        "its hidden size must be a multiple of the number of heads, but {} heads do not divide {}",
        options.num_attention_heads, options.hidden_size);
  try {
    const HfModel back = read_model(written_config(options, family), "its config.json");
    return model_difference(options, back.options);
  } catch (const InputError& error) {
    return error.what();
  }
}

std::string hf_family_for(const ModelOptions& options) {
  for (const HfFamily* family : hf_families())
    if (hf_family_problem(options, family->name).empty()) return std::string(family->name);
  return "";
}

Json hf_config_for(const ModelOptions& options, std::string_view family) {
  const std::string problem = hf_family_problem(options, family);
  check_input(problem.empty(), "this model cannot be written as model_type '{}': {}", family,
              problem);
  return written_config(options, hf_family(family));
}

}  // namespace tessera
