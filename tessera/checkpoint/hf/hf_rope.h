// RoPE in Hugging Face's config.json: rope_theta and rope_scaling (transformers 4) or both in
// rope_parameters (transformers 5).
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// A family's names of the keys, and the defaults of transformers for absent ones.
struct HfRopeKeys {
  std::string_view base = "rope_theta";
  std::string_view percent = "partial_rotary_factor";  ///< empty: whole heads are turned
  bool writes_percent = false;                         ///< else a model that needs it is not of it
  double standard_base = 10000.0;
  double standard_percent = 1.0;
  /// rope_parameters has values for each kind of layer, and these are of this kind.
  std::string_view layer_type = "";
};

/// The options' sizes must be set: max_position_embeddings stands in for an absent
/// original_max_position_embeddings, and RoPE turns an even number of a head's channels.
RopeOptions read_hf_rope(const JsonFields& config, const ModelOptions& options,
                         const HfRopeKeys& keys = {});

/// Adds the base, the part of a head that is turned if the family writes it, and, when there is
/// scaling, rope_scaling.
void write_hf_rope(Json& config, const RopeOptions& rope, const HfRopeKeys& keys = {});

}  // namespace tessera
