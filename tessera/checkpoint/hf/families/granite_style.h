// What Granite's families have in common: scales of embeddings, attention scores, residual branches
// and logits.
#pragma once

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/options/model_options.h"

namespace tessera {

inline constexpr LlamaStyle kGraniteStyle{.rope = {.percent = ""}};

void read_granite_style(const JsonFields& config, ModelOptions& options);
void write_granite_style(const ModelOptions& options, Json& config);

}  // namespace tessera
