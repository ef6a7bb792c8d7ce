#include "tessera/config/problems.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera::config {
namespace {

// More would scroll the first ones away.
constexpr std::size_t kShown = 40;

// Whether the line has "--flag", not as the beginning of a longer name.
bool names_flag(std::string_view line, std::string_view flag) {
  const std::string name = fmt::format("--{}", flag);
  for (std::size_t at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const std::string_view rest = line.substr(at + name.size());
    if (rest.empty() || (rest[0] != '-' && (rest[0] < 'a' || rest[0] > 'z'))) return true;
  }
  return false;
}

}  // namespace

void Problems::add_consequences(const Problems& of_rules) {
  for (const std::string& line : of_rules.lines())
    if (std::ranges::none_of(faulty_flags_,
                             [&](const std::string& flag) { return names_flag(line, flag); }))
      lines_.push_back(line);
}

// Flags with the same explanation share it.
std::string Notes::already_so_line() const {
  std::vector<std::pair<std::string_view, std::string>> by_text;
  for (const auto& note : already_so) {
    const std::string flag = "--" + std::string(note.flag);
    const auto same =
        std::ranges::find_if(by_text, [&](const auto& e) { return e.first == note.text; });
    if (same == by_text.end())
      by_text.emplace_back(note.text, flag);
    else
      same->second += ", " + flag;
  }
  std::string line;
  for (const auto& [text, flags] : by_text)
    line += fmt::format(
        "{}{} ({})", line.empty() ? "flags of Megatron-LM without need here: " : "; ", flags, text);
  return line;
}

void Problems::throw_if_any() const {
  if (lines_.empty()) return;
  if (lines_.size() == 1) throw InputError(lines_.front());
  std::string text = fmt::format("{} problems in the configuration:", lines_.size());
  for (std::size_t i = 0; i < lines_.size() && i < kShown; ++i) text += "\n  - " + lines_[i];
  if (lines_.size() > kShown) text += fmt::format("\n  and {} more", lines_.size() - kShown);
  throw InputError(text);
}

}  // namespace tessera::config
