// Patterns that are not written out by hand, by PCRE2.
#include "tessera/base/check.h"
#include "tessera/tokenizer/split/regex_classes.h"
#include "tessera/tokenizer/split/splitter.h"
#include "tessera/tokenizer/unicode/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace tessera {
namespace {

constexpr std::size_t kMaxPatternBytes = 1 << 16;
constexpr std::uint32_t kMaxSteps = 50'000'000;    // of one match: about a second
constexpr std::uint32_t kMaxHeapKib = 256 * 1024;  // of one match

std::string message_of(int code) {
  unsigned char text[256];
  const int length = pcre2_get_error_message(code, text, sizeof text);
  return length < 0 ? fmt::format("error {}", code) : reinterpret_cast<const char*>(text);
}

template <auto release>
struct Release {
  void operator()(auto* what) const { release(what); }
};

using Code = std::unique_ptr<pcre2_code, Release<pcre2_code_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>>;

Code compile(std::string_view pattern) {
  check_input(pattern.size() <= kMaxPatternBytes, "a pattern has {} bytes, more than {}",
              pattern.size(), kMaxPatternBytes);
  const std::string own = to_pcre2_pattern(pattern);
  // ^ and $ are those of lines, as in Oniguruma.
  constexpr std::uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  int error = 0;
  std::size_t offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(own.data()), own.size(), kOptions, &error,
                          &offset, nullptr));
  check_input(code != nullptr, "the pattern '{}' cannot be used: {}",
              to_valid_utf8(pattern.substr(0, 200)), message_of(error));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it, it is only slower
  return code;
}

class RegexSplitter : public Splitter {
 public:
  explicit RegexSplitter(std::string_view pattern)
      : code_(compile(pattern)), context_(pcre2_match_context_create(nullptr)) {
    check(context_ != nullptr, "out of memory for a pattern");
    pcre2_set_match_limit(context_.get(), kMaxSteps);
    pcre2_set_heap_limit(context_.get(), kMaxHeapKib);
  }

  Piece next(std::string_view text, std::size_t at) const override {
    const MatchData data(pcre2_match_data_create(1, nullptr));
    check(data != nullptr, "out of memory for a pattern");
    const int found = match(text, at, data.get());
    if (found == PCRE2_ERROR_NOMATCH) return {text.size(), false};
    check_input(found >= 0, "the pattern fails at byte {} of a text: {}", at, message_of(found));
    const std::size_t* range = pcre2_get_ovector_pointer(data.get());
    // \K and the like could lead backwards; what comes before `at` is done.
    check_input(range[0] >= at && range[1] > range[0], "the pattern goes backwards at byte {}", at);
    if (range[0] > at) return {range[0], false};
    return {range[1], true};
  }

 private:
  // What takes more stack than the compiled form has is interpreted.
  int match(std::string_view text, std::size_t at, pcre2_match_data* data) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const int found =
        pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NOTEMPTY, data, context_.get());
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
    return pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NOTEMPTY | PCRE2_NO_JIT, data,
                       context_.get());
  }

  Code code_;
  MatchContext context_;
};

}  // namespace

std::unique_ptr<Splitter> make_regex_splitter(std::string_view pattern) {
  return std::make_unique<RegexSplitter>(pattern);
}

}  // namespace tessera
