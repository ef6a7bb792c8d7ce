// Classes of characters as Hugging Face's tokenizers has them; tools/make_hf_unicode_tables.py asks
// it for each code point.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

struct CodePointRange {
  std::uint32_t first, last;
};

extern const CodePointRange kHfNumeric[];      ///< Digits
extern const CodePointRange kHfPunctuation[];  ///< Punctuation, BertPreTokenizer
extern const CodePointRange kHfWord[];         ///< \w of Whitespace, and of added tokens
extern const CodePointRange kHfCleaned[];      ///< removed by BertNormalizer's clean_text
extern const CodePointRange kHfNonspacing[];   ///< removed by BertNormalizer's strip_accents
extern const CodePointRange kHfAccents[];      ///< removed by StripAccents
/// Code points that utf8proc decomposes, composes or reorders, but tokenizers, with its older
/// Unicode version, does not.
extern const CodePointRange kHfUnknownToNormalization[];
/// Pairs rather than ranges: upper and lower case, where utf8proc has another.
extern const CodePointRange kHfLowercase[];

extern const std::size_t kHfNumericCount, kHfPunctuationCount, kHfWordCount, kHfCleanedCount,
    kHfNonspacingCount, kHfAccentsCount, kHfUnknownToNormalizationCount, kHfLowercaseCount;

}  // namespace tessera
