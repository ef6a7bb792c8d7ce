#include "tessera/config/assignments.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/config/flags/flag_table.h"
#include "tessera/config/flags/megatron_flags.h"
#include "tessera/config/flags/other_names.h"
#include "tessera/config/suggest.h"
#include "tessera/config/value.h"
#include "tessera/config/yaml_reader.h"

namespace tessera::config {
namespace {

// Names may be written with '_' for '-', and in files with the dashes in front.
std::string canonical(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::string owners_of(const Flag& flag) {
  std::string owners;
  for (const Command command : kCommands)
    if (flag.commands.has(command))
      owners += fmt::format("{}tessera {}", owners.empty() ? "" : ", ", to_string(command));
  return owners;
}

// The flag that a name is near to, or what it is called in other programs: " (did you mean --lr?)".
std::string near_flag(std::string_view name, Command command) {
  if (const auto hint = hint_for_other_name(name)) return fmt::format(" ({})", *hint);
  std::vector<std::string_view> names;
  for (const Flag& flag : flag_table())
    if (flag.commands.has(command)) names.push_back(flag.name);
  return did_you_mean(name, names, "--");
}

// Why `name` is not a flag of this command.
std::string refusal(std::string_view name, Command command) {
  // Another command's flag may be the name that other programs have for one of this command.
  const Flag* flag = find_flag(name);
  if (flag != nullptr && !hint_for_other_name(name))
    return fmt::format("a flag of {}, not of tessera {}{}{}", owners_of(*flag), to_string(command),
                       flag->replaced_in.has(command) ? ": " : "",
                       flag->replaced_in.has(command) ? flag->replacement : "");
  if (const auto hint = unsupported_megatron_flag(name))
    return fmt::format("known Megatron flag, not supported yet by Tessera{}{}",
                       hint->empty() ? "" : ": ", *hint);
  const std::string near = near_flag(name, command);
  if (near.empty() && in_megatron_family(name))
    return "known Megatron flag, not supported yet by Tessera";
  return fmt::format("unknown flag{}; tessera {} --help lists all", near, to_string(command));
}

const Flag* flag_of(std::string_view name, Command command) {
  const Flag* flag = find_flag(name);
  return flag != nullptr && flag->commands.has(command) ? flag : nullptr;
}

// The flag that an argument with one dash looks like, if any: " (did you mean --lr?)".
std::string flag_with_one_dash(std::string_view argument, Command command) {
  if (argument.size() < 3 || argument[0] != '-' || argument[1] == '-') return {};
  return near_flag(argument.substr(1, argument.find('=') - 1), command);
}

// Walks over the arguments, one flag with its values at a time.
class ArgumentReader {
 public:
  ArgumentReader(Command command, std::span<const std::string> args, Problems& problems)
      : command_(command), args_(args), problems_(problems) {}

  Assignments read() {
    while (next_ < args_.size()) read_flag(args_[next_++]);
    return std::move(given_);
  }

 private:
  void read_flag(std::string_view argument) {
    const std::size_t equals = argument.find('=');
    const std::string_view typed = argument.substr(0, equals);
    const std::string name = canonical(typed);
    if (!argument.starts_with("--") || name.empty()) return refuse_loose(argument);
    const Flag* flag = flag_of(name, command_);
    Values values;
    if (equals < argument.size()) values.emplace_back(argument.substr(equals + 1));
    take_values(flag, equals < argument.size(), values);
    last_ = shown(typed);
    last_is_switch_ = flag != nullptr && flag->arity == Arity::none;
    if (flag == nullptr) return problems_.add("{}: {}", last_, refusal(name, command_));
    add(*flag, std::move(values));
  }

  void refuse_loose(std::string_view argument) {
    if (const std::string meant = flag_with_one_dash(argument, command_); !meant.empty())
      problems_.add("unexpected argument {}: flags begin with two dashes{}", quote(argument),
                    meant);
    else if (last_.empty())
      problems_.add("unexpected argument {}: expected a flag such as --help", quote(argument));
    else
      problems_.add("unexpected argument {}: {} takes no further value{}", quote(argument), last_,
                    last_is_switch_ ? "; leave it out to turn it off" : "");
  }

  // The arguments up to the next flag belong to this one, as far as it takes any. After an unknown
  // flag they are skipped: they would only be complained about twice.
  void take_values(const Flag* flag, bool has_value, Values& values) {
    const bool takes_one = flag != nullptr && flag->arity == Arity::one;
    const bool takes_many = flag == nullptr || flag->arity == Arity::many;
    while (next_ < args_.size() && !args_[next_].starts_with("--") &&
           flag_with_one_dash(args_[next_], command_).empty()) {
      if (has_value || !(takes_many || (takes_one && values.empty()))) break;
      values.push_back(args_[next_++]);
    }
    if (flag != nullptr && flag->arity == Arity::none && values.empty()) values = {"true"};
  }

  void add(const Flag& flag, Values values) {
    if (values.empty())
      return problems_.add("--{} needs a value ({}); one that starts with -- is written --{}=VALUE",
                           flag.name, flag.placeholder, flag.name);
    const auto [at, is_new] = given_.try_emplace(std::string(flag.name));
    if (!is_new && flag.arity != Arity::many)
      return problems_.add("--{} is given twice: {} and {}", flag.name,
                           quote(at->second.values.front()), quote(values.front()));
    at->second.values.insert(at->second.values.end(), values.begin(), values.end());
  }

  static std::string shown(std::string_view typed) {
    const std::string text = quote(typed);
    return text.substr(1, text.size() - 2);
  }

  Command command_;
  std::span<const std::string> args_;
  Problems& problems_;
  std::size_t next_ = 0;
  std::string last_;  // the last flag, as it was typed
  bool last_is_switch_ = false;
  Assignments given_;
};

void assign_entry(Command command, const YamlEntry& entry, std::string_view what,
                  Assignments& given, Problems& problems) {
  const std::string where = fmt::format("{}:{}", what, entry.line);
  const std::string name = canonical(entry.key);
  const Flag* flag = flag_of(name, command);
  if (flag == nullptr)
    return problems.add("{}: {}: {}", where, quote(entry.key), refusal(name, command));
  if (flag->command_line_only)
    return problems.add("{}: {} works on the command line only", where, name);
  if (entry.values.empty() || (flag->arity != Arity::many && entry.values.size() > 1))
    return problems.add("{}: {} has a list of {} values: expected one", where, name,
                        entry.values.size());
  const auto [at, is_new] = given.try_emplace(name, Assignment{entry.values, where});
  problems.require(is_new, "{}: {} is given twice, first in {}", where, name, at->second.where);
}

// Problems when one source gives two flags that exclude each other.
void check_alternatives(const Assignments& given, Problems& problems) {
  std::map<std::string_view, std::string_view> chosen;
  for (const Flag& flag : flag_table()) {
    if (flag.alternative.empty() || !was_given(given, flag.name)) continue;
    const auto [at, is_new] = chosen.try_emplace(flag.alternative, flag.name);
    problems.require(is_new, "--{} and --{} exclude each other ({}): give one of them", at->second,
                     flag.name, flag.alternative);
  }
}

}  // namespace

bool is_on(const Flag& flag, const Assignment& assignment) {
  return flag.arity != Arity::none || assignment.values.front() != "false";
}

bool was_given(const Assignments& given, std::string_view flag) {
  const auto found = given.find(flag);
  return found != given.end() && is_on(*find_flag(flag), found->second);
}

std::string spelled(std::string_view flag, const Assignment& assignment) {
  std::string text = assignment.where.empty() ? fmt::format("--{}", flag)
                                              : fmt::format("{}: {}", assignment.where, flag);
  for (const std::string& value : assignment.values) {
    if (text.size() > 200) return text + " ...";
    text += " " + quote(value);
  }
  return text;
}

Assignments read_arguments(Command command, std::span<const std::string> args, Problems& problems) {
  Assignments given = ArgumentReader(command, args, problems).read();
  check_alternatives(given, problems);
  return given;
}

Assignments read_config(Command command, std::string_view yaml, std::string_view what,
                        Problems& problems) {
  Assignments given;
  for (const YamlEntry& entry : read_flat_yaml(yaml, what))
    assign_entry(command, entry, what, given, problems);
  check_alternatives(given, problems);
  return given;
}

Assignments merge(const Assignments& file, const Assignments& command_line) {
  Assignments merged = command_line;
  for (const auto& [name, assignment] : file) {
    const std::string_view alternative = find_flag(name)->alternative;
    const bool is_replaced =
        !alternative.empty() &&
        std::any_of(command_line.begin(), command_line.end(), [&](const auto& other) {
          const Flag& flag = *find_flag(other.first);
          return flag.alternative == alternative && is_on(flag, other.second);
        });
    if (!is_replaced) merged.try_emplace(name, assignment);
  }
  return merged;
}

void store(const Assignments& given, Settings& settings, Problems& problems) {
  for (const Flag& flag : flag_table()) {
    const auto found = given.find(flag.name);
    if (found == given.end()) continue;
    try {
      flag.set(settings, found->second.values);
    } catch (const InputError& error) {
      problems.add("{}: {}", spelled(flag.name, found->second), error.what());
    }
  }
}

}  // namespace tessera::config
