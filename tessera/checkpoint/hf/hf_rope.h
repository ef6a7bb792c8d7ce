// RoPE in Hugging Face's config.json: rope_theta and rope_scaling (transformers 4) or both in
// rope_parameters (transformers 5).
#pragma once

#include <cstdint>

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// `max_position` stands in for an absent original_max_position_embeddings.
RopeOptions read_hf_rope(const JsonFields& config, std::int64_t max_position);

/// Adds rope_theta and, when there is scaling, rope_scaling.
void write_hf_rope(Json& config, const RopeOptions& rope);

}  // namespace tessera
