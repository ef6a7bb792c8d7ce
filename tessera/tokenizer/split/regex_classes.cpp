#include "tessera/tokenizer/split/regex_classes.h"

#include <fmt/core.h>

#include <array>

#include "tessera/base/check.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, kCategoryCount> kNames = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs"};

bool has_name(Category category, std::string_view name) {
  return kNames[static_cast<std::size_t>(category)].starts_with(name);
}

// Oniguruma's \w: what is alphabetic (letters, and some that are not called so), marks, digits and
// connectors, and all that Latin-1 has of numbers.
bool is_word(char32_t c) {
  const Category category = category_of(c);
  const bool circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                       (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  return is_letter(category) || is_mark(category) || category == Category::Nd ||
         category == Category::Nl || category == Category::Pc || circled ||
         (c < 0x100 && category == Category::No);
}

bool is_digit(char32_t c) { return category_of(c) == Category::Nd; }

bool is_hexadecimal(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// The code points of a class as ranges for between [ and ].
template <class Test>
std::string ranges(bool negated, Test test) {
  std::string text;
  for (char32_t c = 0; c < 0x110000;) {
    const auto in = [&](char32_t x) {
      return (x < 0xD800 || x > 0xDFFF) && test(x) != negated;  // PCRE2 refuses surrogates
    };
    if (!in(c)) {
      ++c;
      continue;
    }
    char32_t last = c;
    while (last + 1 < 0x110000 && in(last + 1)) ++last;
    text += fmt::format("\\x{{{:X}}}", static_cast<unsigned>(c));
    if (last > c) text += fmt::format("-\\x{{{:X}}}", static_cast<unsigned>(last));
    c = last + 1;
  }
  return text;
}

class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) step();
    return std::move(out_);
  }

 private:
  bool follows(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void refuse_if(bool bad, std::string_view what) const {
    check_input(!bad, "byte {} of the pattern '{}' is {}, which is not supported", at_,
                pattern_.substr(0, 200), what);
  }

  void keep(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  void step() {
    if (pattern_[at_] == '\\') return escape();
    if (in_class_) return class_character();
    refuse_if(follows("(?") && sets_option_m(), "the option m, which makes . match line ends");
    refuse_if(follows("}+"), "a possessive {n,m}+");
    if (pattern_[at_] == '[') {
      in_class_ = true;
      keep(follows("[^") ? 2 : 1);
      if (at_ < pattern_.size() && pattern_[at_] == ']') keep(1);
      return;
    }
    keep(1);
  }

  // (?imx-imx) or (?imx-imx:...)
  bool sets_option_m() const {
    const std::size_t end = pattern_.find_first_not_of("imsx-", at_ + 2);
    if (end == std::string_view::npos || (pattern_[end] != ':' && pattern_[end] != ')'))
      return false;
    return pattern_.substr(at_, end - at_).find('m') != std::string_view::npos;
  }

  void class_character() {
    refuse_if(follows("[") && !follows("[:"), "a class in a class");
    refuse_if(follows("&&"), "an intersection of classes");
    if (follows("[:")) {  // [:alpha:]
      const std::size_t end = pattern_.find(":]", at_ + 2);
      refuse_if(end == std::string_view::npos, "a [: without its end");
      return keep(end + 2 - at_);
    }
    if (pattern_[at_] == ']') in_class_ = false;
    keep(1);
  }

  template <class Test>
  void put(std::size_t length, bool negated, Test test) {
    const std::string list = ranges(in_class_ && negated, test);
    out_ += in_class_ ? list : fmt::format("[{}{}]", negated ? "^" : "", list);
    at_ += length;
  }

  void escape() {
    refuse_if(at_ + 1 == pattern_.size(), "a lone backslash");
    switch (const char kind = pattern_[at_ + 1]) {
      case 's':
      case 'S': return put(2, kind == 'S', is_whitespace);
      case 'd':
      case 'D': return put(2, kind == 'D', is_digit);
      case 'w':
      case 'W': return put(2, kind == 'W', is_word);
      case 'h':
      case 'H': return put(2, kind == 'H', is_hexadecimal);
      case 'b':
      case 'B':
        if (in_class_) return keep(2);
        return word_border(kind == 'B');
      case 'p':
      case 'P': return property(kind == 'P');
      case 'x':
        // Whole, so that its brace is not taken for that of a repetition.
        return keep(
            follows("\\x{") ? std::min(pattern_.find('}', at_), pattern_.size() - 1) + 1 - at_ : 2);
      case 'Q':
      case 'E':
      case 'v':
      case 'V':
      case 'N':
      case 'O':
      case 'R':
      case 'X':
      case 'K':
      case 'G': refuse_if(true, fmt::format("\\{}", kind)); break;
      default: return keep(2);
    }
  }

  void word_border(bool negated) {
    const std::string word = "[" + ranges(false, is_word) + "]";
    // The two sides are both of a word or both not, or differ.
    out_ += fmt::format("(?:(?<={0})(?{1}{0})|(?<!{0})(?{2}{0}))", word, negated ? "=" : "!",
                        negated ? "!" : "=");
    at_ += 2;
  }

  // \p{L}, \p{^L}, \P{L}. Names other than those of categories (scripts) stay PCRE2's.
  void property(bool negated) {
    const std::size_t end = pattern_.find('}', at_);
    refuse_if(
        pattern_.size() < at_ + 3 || pattern_[at_ + 2] != '{' || end == std::string_view::npos,
        "a property without { and }");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    bool known = false;
    for (const std::string_view each : kNames) known |= !name.empty() && each.starts_with(name);
    if (!known) return keep(end + 1 - at_);
    put(end + 1 - at_, negated, [&](char32_t c) { return has_name(category_of(c), name); });
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string to_pcre2_pattern(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace tessera
