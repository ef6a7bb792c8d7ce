#include "tessera/tokenizer/hf/hf_unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/tokenizer/hf/hf_unicode_tables.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using Ranges = std::span<const CodePointRange>;

const CodePointRange* find_range(Ranges ranges, char32_t c) {
  const auto found = std::lower_bound(
      ranges.begin(), ranges.end(), c,
      [](const CodePointRange& range, char32_t wanted) { return range.last < wanted; });
  return found != ranges.end() && found->first <= c ? &*found : nullptr;
}

bool contains(const CodePointRange* ranges, std::size_t count, char32_t c) {
  return find_range({ranges, count}, c) != nullptr;
}

bool is_unknown(char32_t c) {
  return c >= 0x300 && contains(kHfUnknownToNormalization, kHfUnknownToNormalizationCount, c);
}

// One run of characters that both Unicode versions know, decomposed and then put in order.
class Normalizer {
 public:
  explicit Normalizer(NormalForm form)
      : composes_(form == NormalForm::nfc || form == NormalForm::nfkc) {
    const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
    options_ = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? int{UTF8PROC_COMPAT} : 0);
  }

  void add(char32_t c) {
    constexpr utf8proc_ssize_t kLongest = 32;  // of the decomposition of one character
    utf8proc_int32_t parts[kLongest];
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, kLongest,
                                static_cast<utf8proc_option_t>(options_), &boundary);
    check(count >= 0 && count <= kLongest, "utf8proc cannot decompose U+{:04X}",
          static_cast<std::uint32_t>(c));
    points_.insert(points_.end(), parts, parts + count);
  }

  void flush(std::string& out) {
    order();
    auto count = static_cast<utf8proc_ssize_t>(points_.size());
    if (composes_ && count > 0)
      count = utf8proc_normalize_utf32(
          points_.data(), count,
          static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    check(count >= 0, "utf8proc cannot compose");
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      append_utf8(out, static_cast<char32_t>(points_[static_cast<std::size_t>(i)]));
    points_.clear();
  }

 private:
  static int combining_class(utf8proc_int32_t c) {
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
  }

  // Marks go by their classes; utf8proc's own way takes quadratic time for a long row of them.
  void order() {
    for (auto at = points_.begin(); at != points_.end();) {
      if (combining_class(*at) == 0) {
        ++at;
        continue;
      }
      const auto end =
          std::find_if(at, points_.end(), [](auto c) { return combining_class(c) == 0; });
      std::stable_sort(at, end,
                       [](auto a, auto b) { return combining_class(a) < combining_class(b); });
      at = end;
    }
  }

  bool composes_;
  int options_;
  std::vector<utf8proc_int32_t> points_;
};

}  // namespace

bool is_hf_numeric(char32_t c) { return contains(kHfNumeric, kHfNumericCount, c); }
bool is_hf_punctuation(char32_t c) { return contains(kHfPunctuation, kHfPunctuationCount, c); }
bool is_hf_word(char32_t c) { return contains(kHfWord, kHfWordCount, c); }
bool is_hf_cleaned(char32_t c) { return contains(kHfCleaned, kHfCleanedCount, c); }
bool is_hf_nonspacing(char32_t c) { return contains(kHfNonspacing, kHfNonspacingCount, c); }
bool is_hf_accent(char32_t c) { return contains(kHfAccents, kHfAccentsCount, c); }

bool is_hf_chinese(char32_t c) {
  static constexpr CodePointRange kRanges[] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
      {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return c >= 0x3400 && contains(kRanges, std::size(kRanges), c);
}

void append_hf_lowercase(std::string& text, char32_t c) {
  if (c == 0x130) {  // the one whose lower case is two characters
    text += "i\xCC\x87";
    return;
  }
  if (c >= 0x1C89)
    for (std::size_t i = 0; i < kHfLowercaseCount; ++i)
      if (kHfLowercase[i].first == c) return append_utf8(text, kHfLowercase[i].last);
  append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

std::string to_normal_form(std::string_view text, NormalForm form) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  Normalizer normalizer(form);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += c.length;
    if (c.value == kInvalidCodePoint || is_unknown(c.value)) {
      normalizer.flush(out);
      append_utf8(out, c.value);
    } else {
      normalizer.add(c.value);
    }
  }
  normalizer.flush(out);
  return out;
}

}  // namespace tessera
