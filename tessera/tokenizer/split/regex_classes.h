// A pattern of Oniguruma's, which Hugging Face's tokenizers use, as one of PCRE2's.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Classes of characters (\p{L}, \s, \d, \w, \h and their opposites) are written out as ranges,
/// since PCRE2 has a Unicode and ideas of its own. What the two read differently is refused with an
/// InputError that names the place.
std::string to_pcre2_pattern(std::string_view pattern);

}  // namespace tessera
