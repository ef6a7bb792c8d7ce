// Checks every rule of a configuration before any work starts. One InputError lists all violations:
// the rule, the values, and what to change.
#pragma once

#include <optional>
#include <string_view>

#include "tessera/config/parse.h"

namespace tessera {

/// Checks the rules of the command, and throws with the problems that `parsed` has already. Options
/// must be resolved with the same `ranks`: the number of ranks that a launcher started; without a
/// value there is no launcher, and --nproc applies. For train the model must be final as well; for
/// other commands validate_model checks it once it is loaded.
void validate(const ParsedCommand& parsed, std::optional<int> ranks = std::nullopt);

/// Checks a model's values and the rules between them, wherever it comes from. Must be resolved.
void validate_model(const ModelOptions& model);

/// Checks that the data matches a model (vocabulary, positions): for evaluate, once the model is
/// loaded. For train it is part of validate.
void validate_fit(const Options& options);

/// Refuses flags that contradict the model `loaded`, which came from `what` (a checkpoint or a
/// Hugging Face folder).
void check_model_matches(const ParsedCommand& parsed, const ModelOptions& loaded,
                         std::string_view what);

}  // namespace tessera
