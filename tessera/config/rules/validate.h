// Every rule of a configuration, checked before any work starts. One InputError lists all that is
// broken: the rule, the values, and what to change.
#pragma once

#include <optional>
#include <string_view>

#include "tessera/config/parse.h"

namespace tessera {

/// The rules of the command. Options must be resolved, with the same `ranks`: how many ranks a
/// launcher started; nothing means that there is no launcher, and --nproc counts. For train the
/// model must be final too. The other commands' model is checked by validate_model once it is
/// there.
void validate(const ParsedCommand& parsed, std::optional<int> ranks = std::nullopt);

/// A model's values and the rules between them, wherever it comes from. Must be resolved.
void validate_model(const ModelOptions& model);

/// That data fits a model (vocabulary, positions): for evaluate, once the model is there. A part of
/// validate for train.
void validate_fit(const Options& options);

/// Refuses flags that say something else of the model than `loaded`, which came from `what` (a
/// checkpoint or a Hugging Face folder).
void check_model_matches(const ParsedCommand& parsed, const ModelOptions& loaded,
                         std::string_view what);

}  // namespace tessera
