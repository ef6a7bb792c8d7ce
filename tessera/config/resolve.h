// Fills in what follows from other options. Values that were given are never changed, and nothing
// is refused here: what cannot be derived stays 0, and validate names it.
#pragma once

#include <optional>

#include "tessera/options/options.h"

namespace tessera {

/// ffn_hidden_size, kv_channels, num_query_groups.
void resolve_model(ModelOptions& model);

/// The model, its vocabulary (from the tokenizer) and positions (from the sequence length), the
/// degrees of parallelism, batch size, iterations, decay iterations, the data's seed and mock
/// data's split. `ranks` is how many ranks a launcher started; nothing means that there is no
/// launcher, and
/// --nproc counts.
void resolve(Options& options, std::optional<int> ranks = std::nullopt);

/// The vocabulary of a tokenizer, end-of-document included; 0 when it is not known. That of one
/// that is read from files stands in vocab_size (read_vocabulary of tessera/tokenizer puts it
/// there).
std::int64_t tokenizer_vocabulary(const TokenizerOptions& tokenizer);

}  // namespace tessera
