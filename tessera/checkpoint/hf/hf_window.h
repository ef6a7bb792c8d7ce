// Which layers have an attention window, in Hugging Face's config.json: layer_types, and the older
// keys that it replaces.
#pragma once

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// InputError if layer_types is present and contradicts the options.
void check_layer_types(const JsonFields& config, const ModelOptions& options);

/// sliding_window; 0 for null. `standard` is the default of transformers if the key is absent.
std::int64_t read_window(const JsonFields& config, std::int64_t standard);
/// Adds sliding_window, maybe null.
void write_window(const ModelOptions& options, Json& config);

/// Qwen's keys: use_sliding_window, sliding_window (standard: 4096), and max_window_layers
/// (standard: 28), which layers without a window come first.
void read_window_from_layer(const JsonFields& config, ModelOptions& options);
void write_window_from_layer(const ModelOptions& options, Json& config);

/// Reads sliding_window (standard: 4096) and which layers have it: all but every N-th, with N from
/// layer_types, from sliding_window_pattern, or else `pattern`.
void read_alternating_window(const JsonFields& config, ModelOptions& options, std::int64_t pattern);

/// Adds sliding_window and layer_types.
void write_alternating_window(const ModelOptions& options, Json& config);

}  // namespace tessera
