#include "tessera/checkpoint/hf/hf_rope.h"

#include <fmt/core.h>

#include <cmath>
#include <string>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr double kMaxBase = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr std::int64_t kMaxPosition = std::int64_t{1} << 30;

RopeScaling scaling_from_name(const std::string& name, const std::string& what) {
  if (name == "default") return RopeScaling::none;
  if (name == "linear") return RopeScaling::linear;
  if (name == "llama3") return RopeScaling::llama3;
  if (name == "yarn") return RopeScaling::yarn;
  fail_input("{}: rope_type '{:.60}' is not supported: expected default, linear, llama3 or yarn",
             what, name);
}

void require(const JsonFields& rope, std::string_view key) {
  check_input(rope.has(key), "{}: {} is missing", rope.what(), key);
}

// transformers takes the place outside the dictionary first, then the one inside.
std::int64_t original_positions(const JsonFields& config, const JsonFields& rope,
                                std::int64_t max_position) {
  constexpr auto key = "original_max_position_embeddings";
  return config.integer(key, rope.integer(key, max_position, 1, kMaxPosition), 1, kMaxPosition);
}

void read_llama3(RopeOptions& options, const JsonFields& rope) {
  for (const auto key : {"factor", "low_freq_factor", "high_freq_factor"}) require(rope, key);
  options.low_freq_factor = rope.number("low_freq_factor", 1.0, 1e-6, kMaxFactor);
  options.high_freq_factor = rope.number("high_freq_factor", 4.0, 1e-6, kMaxFactor);
  check_input(options.high_freq_factor >= options.low_freq_factor,
              "{}: high_freq_factor {} must not be below low_freq_factor {}", rope.what(),
              options.high_freq_factor, options.low_freq_factor);
}

// How much yarn scales attention for one of the two mscale keys.
double yarn_scale(double factor, double mscale) { return 0.1 * mscale * std::log(factor) + 1.0; }

void read_yarn(RopeOptions& options, const JsonFields& rope, std::int64_t max_position) {
  options.truncate = rope.boolean("truncate", true);
  const double implied =
      static_cast<double>(max_position) / static_cast<double>(options.original_max_position);
  if (!rope.has("factor")) options.factor = implied;
  check_input(options.factor >= 1.0 && options.factor <= kMaxFactor,
              "{}: factor is missing, and max_position_embeddings / "
              "original_max_position_embeddings = {} is not one",
              rope.what(), implied);
  // Zero means the default here, as an absent key does.
  const auto beta = [&](std::string_view key, double standard) {
    const double value = rope.number(key, standard, 0.0, kMaxFactor);
    return value == 0.0 ? standard : value;
  };
  options.beta_fast = beta("beta_fast", 32.0);
  options.beta_slow = beta("beta_slow", 1.0);
  check_input(options.beta_fast >= options.beta_slow,
              "{}: beta_fast {} must not be below beta_slow {}", rope.what(), options.beta_fast,
              options.beta_slow);
  const double mscale = rope.number("mscale", 0.0, 0.0, kMaxFactor);
  const double mscale_all = rope.number("mscale_all_dim", 0.0, 0.0, kMaxFactor);
  if (rope.has("attention_factor"))
    options.attention_factor = rope.number("attention_factor", 1.0, 1e-6, kMaxFactor);
  else if (mscale > 0.0 && mscale_all > 0.0)
    options.attention_factor =
        yarn_scale(options.factor, mscale) / yarn_scale(options.factor, mscale_all);
}

void read_scaling(RopeOptions& options, const JsonFields& config, const JsonFields& rope,
                  std::int64_t max_position) {
  options.scaling =
      scaling_from_name(rope.text(rope.either("rope_type", "type"), "default"), rope.what());
  if (options.scaling == RopeScaling::none) return;
  if (options.scaling == RopeScaling::linear) require(rope, "factor");
  options.factor = rope.number("factor", options.factor, 1.0, kMaxFactor);
  if (options.scaling == RopeScaling::linear) return;
  options.original_max_position = original_positions(config, rope, max_position);
  if (options.scaling == RopeScaling::llama3)
    read_llama3(options, rope);
  else
    read_yarn(options, rope, max_position);
}

// The dictionary with RoPE's values, or `none`.
const Json& rope_values(const JsonFields& config, const HfRopeKeys& keys, const Json& none,
                        std::string& what) {
  const bool scaling = config.has("rope_scaling") && !config.json()["rope_scaling"].empty();
  const bool by_layer = !keys.layer_type.empty() && config.has("rope_parameters");
  check_input(!scaling || !by_layer,
              "{}: rope_scaling and rope_parameters are both there: expected one of them",
              config.what());
  const std::string key = scaling ? "rope_scaling" : "rope_parameters";
  what = config.what() + ", " + key;
  if (!config.has(key)) return none;
  if (!by_layer) return config.json()[key];
  const JsonFields kinds(config.json()[key], what);
  what += fmt::format(", {}", keys.layer_type);
  for (const auto& [name, value] : kinds.json().items())
    check_input(value.is_object() || value.is_null(),
                "{}: expected values for each kind of layer, got '{:.60}'", kinds.what(), name);
  return kinds.has(keys.layer_type) ? *kinds.json().find(keys.layer_type) : none;
}

double read_percent(const JsonFields& config, const JsonFields& rope, const HfRopeKeys& keys) {
  constexpr std::string_view usual = "partial_rotary_factor";
  const std::string_view key = keys.percent.empty() ? usual : keys.percent;
  const double outside = config.number(key, keys.standard_percent, 1e-6, 1.0);
  const double percent = rope.number(usual, outside, 1e-6, 1.0);
  check_input(!keys.percent.empty() || percent == 1.0,
              "{}: {} = {} is not supported: this family turns whole heads", config.what(), usual,
              percent);
  return percent;
}

}  // namespace

RopeOptions read_hf_rope(const JsonFields& config, const ModelOptions& model,
                         const HfRopeKeys& keys) {
  RopeOptions options;
  const Json none = Json::object();
  std::string what;
  const Json& values = rope_values(config, keys, none, what);
  const JsonFields rope(values, what);
  for (const auto& [name, value] : rope.json().items())
    check_input(!value.is_object(),
                "{}: one set of values for each kind of layer ('{:.60}') is not supported",
                rope.what(), name);
  options.base = config.number(keys.base, keys.standard_base, 1.0 + 1e-6, kMaxBase);
  options.base = rope.number("rope_theta", options.base, 1.0 + 1e-6, kMaxBase);
  options.percent = read_percent(config, rope, keys);
  const auto rotated =
      static_cast<std::int64_t>(static_cast<double>(model.kv_channels) * options.percent);
  check_input(rotated >= 2 && rotated % 2 == 0,
              "{}: RoPE turns pairs, but {} of the {} channels of a head would be turned",
              config.what(), rotated, model.kv_channels);
  read_scaling(options, config, rope, model.max_position_embeddings);
  return options;
}

void write_hf_rope(Json& config, const RopeOptions& rope, const HfRopeKeys& keys) {
  config[std::string(keys.base)] = rope.base;
  if (keys.writes_percent) config[std::string(keys.percent)] = rope.percent;
  if (rope.scaling == RopeScaling::none) return;
  Json& scaling = config["rope_scaling"];
  scaling["factor"] = rope.factor;
  if (rope.scaling == RopeScaling::linear) {
    scaling["rope_type"] = "linear";
    return;
  }
  scaling["original_max_position_embeddings"] = rope.original_max_position;
  if (rope.scaling == RopeScaling::llama3) {
    scaling["rope_type"] = "llama3";
    scaling["low_freq_factor"] = rope.low_freq_factor;
    scaling["high_freq_factor"] = rope.high_freq_factor;
    return;
  }
  scaling["rope_type"] = "yarn";
  scaling["beta_fast"] = rope.beta_fast;
  scaling["beta_slow"] = rope.beta_slow;
  if (!rope.truncate) scaling["truncate"] = false;
  if (rope.attention_factor != 0.0) scaling["attention_factor"] = rope.attention_factor;
}

}  // namespace tessera
