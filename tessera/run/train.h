// Trains a model from C++, as `tessera train` does. tessera/tessera.h includes what a caller needs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/observe/metrics.h"
#include "tessera/options/options.h"

namespace tessera {

/// The options that these flags of `tessera train` set, such as {"--num-layers", "2"}; --config
/// reads a YAML file. An InputError lists everything that is wrong with them.
Options train_options(std::span<const std::string> flags);

/// Checks the options, starts the ranks that they ask for, and trains on them. Derived options (the
/// width of the MLP, the vocabulary of the tokenizer, ...) may be left at 0.
///
/// An InputError lists every rule that the options violate, before a rank starts. A rank that fails
/// ends all others; its exception is thrown. Returns 0, or the exit code of `tessera train` if a
/// signal stopped the run after it had saved.
///
/// `arguments` are those of the calling program, without its name. They are needed only for ranks
/// that are processes (ParallelOptions::launch): each of them runs the program again.
int train(const Options& options, const MetricCallbacks& callbacks = {},
          const std::vector<std::string>& arguments = {});

}  // namespace tessera
