// Derives options from other options. Values that were given are never changed, and nothing is
// refused here: values that cannot be derived stay 0, and validate reports them.
#pragma once

#include <optional>

#include "tessera/options/options.h"

namespace tessera {

/// ffn_hidden_size, kv_channels, num_query_groups.
void resolve_model(ModelOptions& model);

/// Derives the model, its vocabulary (from the tokenizer) and positions (from the sequence length),
/// the parallel sizes, batch size, iterations, decay iterations, the seed of the data and the split
/// of mock data. `ranks` is the number of ranks that a launcher started; without a value there is
/// no launcher, and --nproc applies.
void resolve(Options& options, std::optional<int> ranks = std::nullopt);

/// The vocabulary size of a tokenizer, end-of-document included; 0 if it is not known. For a
/// tokenizer that is read from files it is vocab_size, which read_vocabulary of tessera/tokenizer
/// sets.
std::int64_t tokenizer_vocabulary(const TokenizerOptions& tokenizer);

}  // namespace tessera
