#include "tessera/config/yaml_guard.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/config/value.h"
#include "tessera/options/limits.h"

namespace tessera::config {
namespace {

// More than any real file has, fewer than the library takes long to read.
constexpr int kMaxKeys = 1024;
constexpr int kMaxItems = 65536;

// What may not start an unquoted scalar: it would be something other than a scalar.
constexpr std::string_view kIndicators = "&*!|>{}[]%@`?,:\"'#";

bool is_key_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
}

std::string_view after_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

class Guard {
 public:
  explicit Guard(std::string_view what) : what_(what) {}

  void check_line(std::string_view line) {
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    for (const char c : line)
      if (static_cast<unsigned char>(c) < 0x20)
        refuse("has a control character: indent with spaces");
    const std::string_view rest = after_spaces(line);
    if (rest.empty() || rest.front() == '#') return;
    if (line == "---" && !std::exchange(has_started_, true)) return;
    has_started_ = true;
    if (rest == "-" || rest.starts_with("- "))
      check_item(rest.substr(1));
    else
      check_entry(line);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    fail_input("{}:{}: {}", what_, line_, fmt::format(text, std::forward<Args>(args)...));
  }

  [[noreturn]] void refuse_plain(std::string_view text) const {
    refuse("{} is not a plain value: put text in double quotes", quote(text));
  }

  void check_entry(std::string_view line) {
    const auto end = std::find_if_not(line.begin(), line.end(), is_key_char);
    const auto length = static_cast<std::size_t>(end - line.begin());
    const std::string_view rest = line.substr(length);
    if (length == 0 || !(rest == ":" || rest.starts_with(": ")))
      refuse("expected 'name: value' without indentation, got {}", quote(line));
    if (++keys_ > kMaxKeys) refuse("the file has more than {} options", kMaxKeys);
    const std::string_view value = after_spaces(rest.substr(1));
    list_is_open_ = value.empty() || value.front() == '#';
    if (!list_is_open_) check_value(value);
  }

  void check_item(std::string_view text) {
    if (!list_is_open_) refuse("a list item needs a line 'name:' above it");
    const std::string_view value = after_spaces(text);
    if (value.empty() || value.front() == '#') refuse("a list item without value");
    if (value.front() == '[') refuse("a list inside a list");
    count_item();
    check_value(value);
  }

  void count_item() {
    if (++items_ > kMaxItems) refuse("the file has more than {} list items", kMaxItems);
  }

  void check_value(std::string_view text) {
    std::string_view rest = text.front() == '[' ? after_list(text) : after_scalar(text, "");
    rest = after_spaces(rest);
    if (!rest.empty() && rest.front() != '#') refuse("unexpected {} after the value", quote(rest));
  }

  // What follows the list that `text` starts with.
  std::string_view after_list(std::string_view text) {
    std::string_view rest = after_spaces(text.substr(1));
    if (rest.starts_with(']')) return rest.substr(1);
    while (true) {
      count_item();
      rest = after_spaces(after_scalar(rest, ",[]{}"));
      if (rest.empty()) refuse("a list must be closed on the line where it starts");
      if (rest.front() == ']') return rest.substr(1);
      if (rest.front() != ',') refuse("expected ',' or ']' in a list, got {}", quote(rest));
      rest = after_spaces(rest.substr(1));
    }
  }

  // What follows the scalar that `text` starts with; an unquoted one ends at a comment or at one of
  // `stops`.
  std::string_view after_scalar(std::string_view text, std::string_view stops) const {
    if (text.empty()) refuse("a value is missing");
    if (text.front() == '"' || text.front() == '\'') return after_quoted(text);
    if (kIndicators.find(text.front()) != std::string_view::npos) refuse_plain(text);
    std::string_view scalar = text.substr(0, text.find_first_of(stops));
    scalar = scalar.substr(0, scalar.find(" #"));
    const bool is_nested = scalar.find(": ") != std::string_view::npos || scalar.ends_with(':') ||
                           scalar == "-" || scalar.starts_with("- ");
    if (is_nested) refuse_plain(scalar);
    return text.substr(scalar.size());
  }

  std::string_view after_quoted(std::string_view text) const {
    const char mark = text.front();
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (mark == '"' && text[i] == '\\')
        ++i;
      else if (mark == '\'' && text.substr(i).starts_with("''"))
        ++i;
      else if (text[i] == mark)
        return text.substr(i + 1);
    }
    refuse("a quoted text must be closed on the line where it starts");
  }

  std::string_view what_;
  int line_ = 0;
  bool has_started_ = false;  // a second "---" would start a second document
  int keys_ = 0;
  int items_ = 0;
  bool list_is_open_ = false;  // the last entry had no value of its own
};

}  // namespace

void check_flat_yaml(std::string_view text, std::string_view what) {
  check_input(text.size() <= kMaxConfigBytes,
              "{} has {} bytes, more than the {} that a configuration may have", what, text.size(),
              kMaxConfigBytes);
  check_input(is_utf8(text), "{} is not UTF-8 text", what);
  Guard guard(what);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    guard.check_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace tessera::config
