#include "tessera/config/assignments.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/config/flag_names.h"
#include "tessera/config/flags/flag_table.h"
#include "tessera/config/megatron/judge.h"
#include "tessera/config/value.h"
#include "tessera/config/yaml_reader.h"

namespace tessera::config {
namespace {

// The flag that an argument with one dash looks like, if any: " (did you mean --lr?)".
std::string flag_with_one_dash(std::string_view argument, Command command) {
  if (argument.size() < 3 || argument[0] != '-' || argument[1] == '-') return {};
  return near_flag(argument.substr(1, argument.find('=') - 1), command);
}

// Walks over the arguments, one flag with its values at a time.
class ArgumentReader {
 public:
  ArgumentReader(Command command, std::span<const std::string> args, Problems& problems,
                 Notes& notes)
      : command_(command), args_(args), problems_(problems), notes_(notes) {}

  Assignments read() {
    while (next_ < args_.size()) read_flag(args_[next_++]);
    judge_megatron(megatron_, given_, problems_, notes_);
    return std::move(given_);
  }

 private:
  void read_flag(std::string_view argument) {
    const std::size_t equals = argument.find('=');
    const std::string_view typed = argument.substr(0, equals);
    const std::string name = canonical_name(typed);
    if (!argument.starts_with("--") || name.empty()) return refuse_loose(argument);
    const FlagName found = flag_name(name, command_);
    Values values;
    if (equals < argument.size()) values.emplace_back(argument.substr(equals + 1));
    take_values(found.arity(), equals < argument.size(), values);
    last_ = shown(typed);
    last_is_switch_ = found.arity() == Arity::none;
    if (!found.known()) return problems_.add("{}: {}", last_, refusal(name, command_));
    if (values.empty())
      return problems_.add_for(
          name, "--{} needs a value ({}); one that starts with -- is written --{}=VALUE", name,
          placeholder_of(found), name);
    add(name, found, std::move(values));
  }

  void add(const std::string& name, const FlagName& found, Values values) {
    if (found.flag != nullptr) return assign(*found.flag, std::move(values));
    if (found.megatron != nullptr)
      return megatron_.push_back({found.megatron, std::move(values), ""});
    add_meaning(name, values.front());
  }

  void add_meaning(const std::string& name, const std::string& value) {
    const auto meaning = meaning_of(name, value);
    if (!meaning) return problems_.add("--{} {}: unknown value", name, quote(value));
    for (const auto& [flag, values] : *meaning) assign(*find_flag(flag), values);
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
  void take_values(Arity arity, bool has_value, Values& values) {
    while (next_ < args_.size() && !args_[next_].starts_with("--") &&
           flag_with_one_dash(args_[next_], command_).empty()) {
      if (has_value || !(arity == Arity::many || (arity == Arity::one && values.empty()))) break;
      values.push_back(args_[next_++]);
    }
    if (arity == Arity::none && values.empty()) values = {"true"};
  }

  static std::string_view placeholder_of(const FlagName& found) {
    if (found.flag != nullptr) return found.flag->placeholder;
    return found.megatron != nullptr ? found.megatron->placeholder : "VALUE";
  }

  void assign(const Flag& flag, Values values) {
    const auto [at, is_new] = given_.try_emplace(std::string(flag.name));
    Values& before = at->second.values;
    if (flag.arity == Arity::many && command_ != Command::train) {
      before.insert(before.end(), values.begin(), values.end());
      return;
    }
    if (!is_new && command_ != Command::train)
      return problems_.add("--{} is given twice: {} and {}", flag.name, quote(before.front()),
                           quote(values.front()));
    if (!is_new && before != values)
      notes_.warnings.push_back(fmt::format("--{} is given several times: the last one counts, {}",
                                            flag.name, quote(values.back())));
    before = std::move(values);
  }

  static std::string shown(std::string_view typed) {
    const std::string text = quote(typed);
    return text.substr(1, text.size() - 2);
  }

  Command command_;
  std::span<const std::string> args_;
  Problems& problems_;
  Notes& notes_;
  std::vector<MegatronUse> megatron_;
  std::size_t next_ = 0;
  std::string last_;  // the last flag, as it was typed
  bool last_is_switch_ = false;
  Assignments given_;
};

// The entries of a configuration file.
class EntryReader {
 public:
  EntryReader(Command command, std::string_view what, Problems& problems, Notes& notes)
      : command_(command), what_(what), problems_(problems), notes_(notes) {}

  void read(const YamlEntry& entry) {
    const std::string where = fmt::format("{}:{}", what_, entry.line);
    const std::string name = canonical_name(entry.key);
    const FlagName found = flag_name(name, command_);
    if (!found.known())
      return problems_.add("{}: {}: {}", where, quote(entry.key), refusal(name, command_));
    if (found.flag != nullptr && found.flag->command_line_only)
      return problems_.add("{}: {} works on the command line only", where, name);
    if (entry.values.empty() || (found.arity() != Arity::many && entry.values.size() > 1))
      return problems_.add("{}: {} has a list of {} values: expected one", where, name,
                           entry.values.size());
    if (found.megatron != nullptr)
      return megatron_.push_back({found.megatron, entry.values, where});
    if (found.flag != nullptr) return assign(name, {entry.values, where});
    const auto meaning = meaning_of(name, entry.values.front());
    if (!meaning)
      return problems_.add("{}: {} {}: unknown value", where, name, quote(entry.values.front()));
    for (const auto& [flag, values] : *meaning) assign(flag, {values, where});
  }

  Assignments finish() {
    judge_megatron(megatron_, given_, problems_, notes_);
    return std::move(given_);
  }

 private:
  void assign(const std::string& name, const Assignment& assignment) {
    const auto [at, is_new] = given_.try_emplace(name, assignment);
    problems_.require(is_new, "{}: {} is given twice, first in {}", assignment.where, name,
                      at->second.where);
  }

  Command command_;
  std::string_view what_;
  Problems& problems_;
  Notes& notes_;
  std::vector<MegatronUse> megatron_;
  Assignments given_;
};

// What a flag sets by itself; nothing if its value is bad, which is reported where it is stored.
std::optional<Settings> settings_from(const Flag& flag, const Assignments& given) {
  Settings settings;
  try {
    flag.set(settings, given.find(flag.name)->second.values);
  } catch (const InputError&) {
    return std::nullopt;
  }
  return settings;
}

// Problems when one source gives two flags that exclude each other, unless both say the same.
void check_alternatives(const Assignments& given, Problems& problems) {
  std::map<std::string_view, const Flag*> chosen;
  for (const Flag& flag : flag_table()) {
    if (flag.alternative.empty() || !was_given(given, flag.name)) continue;
    const auto [at, is_new] = chosen.try_emplace(flag.alternative, &flag);
    problems.require(is_new || settings_from(*at->second, given) == settings_from(flag, given),
                     "--{} and --{} exclude each other ({}): give one of them", at->second->name,
                     flag.name, flag.alternative);
  }
}

void add_bad_value(const Flag& flag, const Assignment& assignment, std::string_view expected,
                   Problems& problems) {
  const std::string what = spelled(flag.name, assignment);
  for (const std::string& value : assignment.values)
    if (const MissingValue* missing = find_missing_value(flag.name, value)) {
      problems.ignore_rules_of(missing->goes_with);
      return problems.add_for(flag.name,
                              "{}: known value of Megatron-LM, not supported yet by Tessera: {}",
                              what, missing->text);
    }
  problems.add_for(flag.name, "{}: {}", what, expected);
}

}  // namespace

bool is_on(const Flag& flag, const Assignment& assignment) {
  const std::string& value = assignment.values.front();
  if (flag.zero_is_absent) return value != "0";
  return flag.arity != Arity::none || value != "false";
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

Assignments read_arguments(Command command, std::span<const std::string> args, Problems& problems,
                           Notes& notes) {
  Assignments given = ArgumentReader(command, args, problems, notes).read();
  check_alternatives(given, problems);
  return given;
}

Assignments read_config(Command command, std::string_view yaml, std::string_view what,
                        Problems& problems, Notes& notes) {
  EntryReader reader(command, what, problems, notes);
  for (const YamlEntry& entry : read_flat_yaml(yaml, what)) reader.read(entry);
  Assignments given = reader.finish();
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
      add_bad_value(flag, found->second, error.what(), problems);
    }
  }
}

}  // namespace tessera::config
