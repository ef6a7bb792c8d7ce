#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/config/flags/flag_table.h"
#include "tessera/config/print.h"

namespace tessera {
namespace {

using config::Arity;
using config::Flag;
using config::Group;

constexpr std::size_t kColumns = 100;
constexpr std::size_t kHelpColumn = 36;

// A space where no line may break.
constexpr char kTie = '\x1f';

// Breaks text at spaces into lines that fit from kHelpColumn on.
std::vector<std::string> wrap(std::string_view text) {
  std::vector<std::string> lines;
  while (text.size() > kColumns - kHelpColumn) {
    const std::size_t space = text.rfind(' ', kColumns - kHelpColumn);
    const std::size_t cut = space == std::string_view::npos ? kColumns - kHelpColumn : space;
    lines.emplace_back(text.substr(0, cut));
    text.remove_prefix(std::min(cut + 1, text.size()));
  }
  lines.emplace_back(text);
  for (std::string& line : lines) std::replace(line.begin(), line.end(), kTie, ' ');
  return lines;
}

// The help text with the default, unless the text explains it or a switch is simply off.
std::string described(const Flag& flag, Command command, const Settings& defaults) {
  std::string text(flag.help_of(command));
  const auto values = flag.get(defaults);
  if (flag.required && !values)
    return text + (flag.group == Group::model ? " (required, unless --load-hf gives a model)"
                                              : " (required)");
  const bool says_default = text.find("[default") != std::string::npos;
  if (values && flag.arity != Arity::none && !says_default)
    text += fmt::format(" [default:{}{}]", kTie, fmt::join(*values, " "));
  return text;
}

// A long list of words is broken behind commas.
std::string name_and_placeholder(const Flag& flag) {
  const std::string name = fmt::format("  --{} ", flag.name);
  std::string text = name, rest = flag.placeholder;
  while (name.size() + rest.size() > kColumns) {
    const std::size_t comma = rest.rfind(',', kColumns - name.size() - 1);
    if (comma == std::string::npos) break;
    text += rest.substr(0, comma + 1) + "\n" + std::string(name.size() + 1, ' ');
    rest.erase(0, comma + 1);
  }
  return rest.empty() ? text.substr(0, text.size() - 1) : text + rest;
}

std::string entry(const Flag& flag, Command command, const Settings& defaults) {
  std::string text = name_and_placeholder(flag);
  bool on_first_line = text.size() + 2 <= kHelpColumn;
  for (const std::string& line : wrap(described(flag, command, defaults))) {
    if (on_first_line)
      text += std::string(kHelpColumn - text.size(), ' ') + line;
    else
      text += "\n" + std::string(kHelpColumn, ' ') + line;
    on_first_line = false;
  }
  return text + "\n";
}

// What the flags of a command do not say themselves.
std::string_view note_of(Command command) {
  if (command != Command::inspect) return "";
  return "\nA checkpoint, or a folder of them, may come first without --load: tessera inspect run "
         "--verify\n\nTakes the flags that change a model, its memory or its layout. Other flags "
         "of "
         "tessera train are\nrefused, but for --mesh and --schedule, which take all of them.\n";
}

}  // namespace

std::string overview_text() {
  std::string text =
      "tessera: trains transformer language models\n\nUsage: tessera COMMAND ...\n\n";
  for (const Command command : kCommands)
    text += fmt::format("  {:<17}{}\n", to_string(command), command_summary(command));
  return text + "\ntessera COMMAND --help shows the flags of a command.\n";
}

std::string help_text(Command command) {
  std::string text = fmt::format(
      "tessera {0}: {1}\n\nUsage: tessera {0} [--flag VALUE | --flag=VALUE | --switch]...\n",
      to_string(command), command_summary(command));
  text += note_of(command);
  const Settings defaults = default_settings(command);
  for (const auto& [group, title] : config::group_titles()) {
    std::string entries;
    for (const Flag& flag : config::flag_table())
      if (flag.group == group && flag.commands.has(command))
        entries += entry(flag, command, defaults);
    if (!entries.empty()) text += fmt::format("\n{}:\n{}", title, entries);
  }
  return text;
}

}  // namespace tessera
