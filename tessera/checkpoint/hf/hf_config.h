// Converts between Hugging Face's config.json and ModelOptions, for the families of hf_family.h.
// Absent keys have the defaults of transformers. Settings that cannot be reproduced exactly are an
// InputError, never ignored.
#pragma once

#include <string>
#include <string_view>

#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/options/model_options.h"

namespace tessera {

struct HfModel {
  ModelOptions options;  ///< complete: nothing is left to derive
  std::string family;    ///< model_type
  std::string dtype;     ///< "bfloat16", as the config says it; empty when it does not
  bool mxfp4 = false;    ///< see HfFamily
};

/// Reads config.json of a folder.
HfModel read_hf_config(const fs::path& folder);
/// The same from text; `what` stands for the file in messages.
HfModel parse_hf_config(std::string_view text, const std::string& what);

/// "bfloat16" for bf16, as PyTorch calls it.
std::string_view torch_name(DType type);

/// A config.json for the options, with the keys that every version of transformers reads.
/// InputError if the family cannot express them. Options must be complete. bos_token_id,
/// eos_token_id and pad_token_id are null; the caller sets them from the tokenizer. (transformers
/// gives the embedding of a padding token no gradient, and some families have one by default.)
Json hf_config_for(const ModelOptions& options, std::string_view family);

/// Why a model of this family cannot represent the options ("qkv bias would become false instead of
/// true"); empty if it can. Dropout, initialization, and how experts are balanced and limited are
/// ignored: they affect training, not the model.
std::string hf_family_problem(const ModelOptions& options, std::string_view family);

/// The first family that can express the options; empty when none can.
std::string hf_family_for(const ModelOptions& options);

}  // namespace tessera
