#include "tessera/config/flag_names.h"

#include <fmt/core.h>

#include <algorithm>

#include "tessera/config/flags/flag_table.h"
#include "tessera/config/flags/other_names.h"
#include "tessera/config/suggest.h"

namespace tessera::config {
namespace {

std::string owners_of(const Flag& flag) {
  std::string owners;
  for (const Command command : kCommands)
    if (flag.commands.has(command))
      owners += fmt::format("{}tessera {}", owners.empty() ? "" : ", ", to_string(command));
  return owners;
}

}  // namespace

std::string canonical_name(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

Arity FlagName::arity() const {
  if (flag != nullptr) return flag->arity;
  if (old_name != nullptr) return old_name->arity;
  return megatron != nullptr ? megatron->arity : Arity::many;
}

FlagName flag_name(std::string_view name, Command command) {
  FlagName found;
  const Flag* flag = find_flag(name);
  if (flag != nullptr && flag->commands.has(command)) {
    found.flag = flag;
  } else if (command == Command::train) {
    found.old_name = find_old_name(name);
    if (found.old_name == nullptr) found.megatron = find_megatron_flag(name);
  }
  return found;
}

std::string near_flag(std::string_view name, Command command) {
  if (const auto hint = hint_for_other_name(name)) return fmt::format(" ({})", *hint);
  std::vector<std::string_view> names;
  for (const Flag& flag : flag_table())
    if (flag.commands.has(command)) names.push_back(flag.name);
  return did_you_mean(name, names, "--");
}

std::string refusal(std::string_view name, Command command) {
  // Another command's flag may be the name that other programs have for one of this command.
  const Flag* flag = find_flag(name);
  if (flag != nullptr && !hint_for_other_name(name))
    return fmt::format("a flag of {}, not of tessera {}{}{}", owners_of(*flag), to_string(command),
                       flag->replaced_in.has(command) ? ": " : "",
                       flag->replaced_in.has(command) ? flag->replacement : "");
  if (find_old_name(name) != nullptr || find_megatron_flag(name) != nullptr)
    return fmt::format("a flag of Megatron-LM's training, which only tessera train takes");
  return fmt::format("unknown flag{}; tessera {} --help lists all", near_flag(name, command),
                     to_string(command));
}

}  // namespace tessera::config
