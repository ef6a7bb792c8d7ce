#include "tessera/checkpoint/hf/hf_window.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {
namespace {

constexpr std::string_view kSliding = "sliding_attention";
constexpr std::string_view kFull = "full_attention";

bool has_window(const ModelOptions& options, std::int64_t layer) {
  if (options.attention_window == 0 || layer < options.window_first_layer) return false;
  return options.window_skip_freq == 0 || (layer + 1) % options.window_skip_freq != 0;
}

const Json& checked_layer_types(const JsonFields& config, const ModelOptions& options) {
  const Json& types = config.json()["layer_types"];
  check_input(types.is_array() && types.size() == static_cast<std::size_t>(options.num_layers),
              "{}: layer_types must be a list of {} names, one for each layer", config.what(),
              options.num_layers);
  return types;
}

// Which layers have the window: all from the first one on that is named, or all but every N-th.
// check_layer_types finds lists that are neither.
void read_layer_types(const Json& types, ModelOptions& options) {
  const auto sliding = std::ranges::find(types, kSliding), full = std::ranges::find(types, kFull);
  options.window_skip_freq = 0;
  if (sliding == types.end())
    options.attention_window = 0;
  else if (full == types.begin())
    options.window_first_layer = std::distance(types.begin(), sliding);
  else if (full != types.end())
    options.window_skip_freq = std::distance(types.begin(), full) + 1;
}

}  // namespace

void check_layer_types(const JsonFields& config, const ModelOptions& options) {
  if (!config.has("layer_types")) return;
  const Json& types = checked_layer_types(config, options);
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    const std::string_view expected = has_window(options, i) ? kSliding : kFull;
    const Json& type = types[static_cast<std::size_t>(i)];
    check_input(
        type == expected,
        "{}: layer_types[{}] is {:.60}, but the layers before it and the other keys make it "
        "\"{}\": only windows from one layer on, or in all layers but every N-th, are supported",
        config.what(), i, type.dump(), expected);
  }
}

std::int64_t read_window(const JsonFields& config, std::int64_t standard) {
  return config.integer("sliding_window", config.contains("sliding_window") ? 0 : standard, 1,
                        kMaxHfPositions);
}

void write_window(const ModelOptions& options, Json& config) {
  config["sliding_window"] = options.attention_window > 0 ? Json(options.attention_window) : Json();
}

void read_window_from_layer(const JsonFields& config, ModelOptions& options) {
  const bool used = config.boolean("use_sliding_window", false);
  const std::int64_t window = read_window(config, 4096);
  const std::int64_t first = config.integer("max_window_layers", 28, 0, kMaxHfPositions);
  if (used && window > 0 && first < options.num_layers) {
    options.attention_window = window;
    options.window_first_layer = first;
  }
  check_layer_types(config, options);
}

void write_window_from_layer(const ModelOptions& options, Json& config) {
  const bool window = options.attention_window > 0;
  write_window(options, config);
  config["use_sliding_window"] = window;
  config["max_window_layers"] = window ? options.window_first_layer : options.num_layers;
}

void read_alternating_window(const JsonFields& config, ModelOptions& options,
                             std::int64_t pattern) {
  options.attention_window = read_window(config, 4096);
  check_input(options.attention_window > 0, "{}: sliding_window must be a number, got null",
              config.what());
  const std::int64_t every = config.integer("sliding_window_pattern", pattern, 1, kMaxHfPositions);
  if (config.has("layer_types"))
    read_layer_types(checked_layer_types(config, options), options);
  else if (every == 1)
    options.attention_window = 0;
  else if (every <= options.num_layers)
    options.window_skip_freq = every;
  check_layer_types(config, options);
}

void write_alternating_window(const ModelOptions& options, Json& config) {
  if (options.attention_window > 0) config["sliding_window"] = options.attention_window;
  Json& types = config["layer_types"] = Json::array();
  for (std::int64_t i = 0; i < options.num_layers; ++i)
    types.push_back(has_window(options, i) ? kSliding : kFull);
}

}  // namespace tessera
