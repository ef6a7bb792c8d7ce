// Unicode as Hugging Face's tokenizers sees it: the classes its parts ask for, lower case, and the
// normal forms. Texts are valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

bool is_hf_numeric(char32_t c);
bool is_hf_punctuation(char32_t c);
bool is_hf_word(char32_t c);        ///< \w
bool is_hf_cleaned(char32_t c);     ///< removed by BertNormalizer with clean_text
bool is_hf_nonspacing(char32_t c);  ///< removed by it with strip_accents
bool is_hf_accent(char32_t c);      ///< removed by StripAccents
bool is_hf_chinese(char32_t c);     ///< surrounded with spaces by BertNormalizer

/// Appends the lower case of one character.
void append_hf_lowercase(std::string& text, char32_t c);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// Time is O(n log n).
std::string to_normal_form(std::string_view text, NormalForm form);

}  // namespace tessera
