// From options to datasets.
#pragma once

#include <memory>

#include "tessera/data/data_options.h"
#include "tessera/data/dataset.h"
#include "tessera/data/split.h"
#include "tessera/data/token_source.h"
#include "tessera/data/tokenizer.h"

namespace tessera {

/// The files that the options name, or mock data. All splits can share one source.
std::shared_ptr<const TokenSource> open_tokens(const DataOptions& options,
                                               const Tokenizer& tokenizer);

/// The samples of one split, at least `num_samples` of them. Mock data is split "1,1,1", as in
/// Megatron. Tokens outside the tokenizer's vocabulary are refused when they are met.
std::unique_ptr<Dataset> build_gpt_dataset(std::shared_ptr<const TokenSource> source,
                                           const DataOptions& options, const Tokenizer& tokenizer,
                                           Split split, std::int64_t num_samples);

}  // namespace tessera
