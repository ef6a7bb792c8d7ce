#include "tessera/config/megatron/judge.h"

#include <algorithm>

#include "tessera/config/value.h"

namespace tessera::config {
namespace {

// Whether the flag that a row belongs to was given, perhaps with the row's value.
bool has_partner(std::string_view partner, const std::vector<MegatronUse>& uses,
                 const Assignments& given) {
  const std::string_view name = partner.substr(0, partner.find('='));
  const std::string_view value =
      name.size() == partner.size() ? std::string_view() : partner.substr(name.size() + 1);
  const auto matches = [&](const Values& values) {
    return value.empty() || std::ranges::any_of(values, [&](const std::string& each) {
             return each.find(value) != std::string::npos;
           });
  };
  if (const auto own = given.find(name); own != given.end()) return matches(own->second.values);
  return std::ranges::any_of(
      uses, [&](const MegatronUse& use) { return use.flag->name == name && matches(use.values); });
}

bool is_switched_off(const MegatronUse& use, Problems& problems) {
  if (use.flag->arity != Arity::none || use.values.front() == "true") return false;
  problems.require(use.values.front() == "false", "--{} {}: expected true or false", use.flag->name,
                   quote(use.values.front()));
  return true;
}

void note(const MegatronUse& use, Notes& notes) {
  const std::string name(use.flag->name);
  if (std::ranges::find(notes.already_so, name, &Notes::AlreadySo::flag) == notes.already_so.end())
    notes.already_so.push_back({name, use.flag->row->text});
}

void judge_missing(const MegatronUse& use, const std::string& what, bool has_effect,
                   Problems& problems, Notes& notes) {
  const MegatronRow& row = *use.flag->row;
  if (!row.values.empty() && use.flag->lists(use.values)) return note(use, notes);
  if (has_effect)
    return problems.add("{}: known Megatron flag, not supported yet by Tessera: {}", what,
                        row.text);
  notes.warnings.push_back(
      fmt::format("{} has no effect: it belongs to --{}", what, row.only_with));
}

}  // namespace

void judge_megatron(const std::vector<MegatronUse>& uses, const Assignments& given,
                    Problems& problems, Notes& notes) {
  for (const MegatronUse& use : uses) {
    const MegatronRow& row = *use.flag->row;
    if (is_switched_off(use, problems)) continue;
    const std::string what = use.where.empty()
                                 ? fmt::format("--{}", use.flag->name)
                                 : fmt::format("{}: {}", use.where, quote(use.flag->name));
    if (use.flag->kind == MegatronClass::missing)
      judge_missing(use, what, row.only_with.empty() || has_partner(row.only_with, uses, given),
                    problems, notes);
    else if (row.values.empty() || use.flag->lists(use.values))
      note(use, notes);
    else
      problems.add("{} {}: not supported yet by Tessera: {} (accepted: {})", what,
                   quote(use.values.front()), row.text, row.values);
  }
}

}  // namespace tessera::config
