// Encodes and decodes whole inputs: what `tessera tokenize` does.
#pragma once

#include <iosfwd>
#include <string_view>

#include "tessera/options/tokenize_options.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

/// Reads all of `in` and writes what the options ask for. InputError names `what` (a file) and the
/// line.
void tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
              std::string_view what, std::ostream& out);

}  // namespace tessera
