// The copy of a run's tokenizer in its checkpoints, so that a checkpoint can be used without other
// files.
#pragma once

#include <optional>

#include "tessera/checkpoint/carried_files.h"
#include "tessera/checkpoint/hf/hf_folder.h"
#include "tessera/options/tokenizer_options.h"

namespace tessera {

/// Puts its files in the place of another tokenizer's. One without files changes nothing.
void carry_tokenizer(const TokenizerOptions& tokenizer, CarriedFiles& files);

/// InputError when the checkpoint carries another tokenizer of the same kind.
void check_same_tokenizer(const Checkpoint& checkpoint, const CarriedFiles& carried,
                          const TokenizerOptions& tokenizer);

/// Names the checkpoint's own copies, where it has them: the files that the run read may be gone.
void use_carried_tokenizer(Checkpoint& checkpoint, TokenizerOptions& tokenizer);

/// That of a Hugging Face folder, if it has one that can be read and fits the model. Warns of one
/// that cannot.
std::optional<TokenizerOptions> tokenizer_of(const HfFolder& folder);

}  // namespace tessera
