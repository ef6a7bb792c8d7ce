// All flags of Megatron-LM, each in one class: done, already so, or missing. The command line is
// read by this table, docs/megatron.md is generated from it, and a test compares both with the
// table of Tessera's own flags.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/flags/flag.h"

namespace tessera::config {

enum class MegatronClass {
  done,        ///< does what it does in Megatron: a row of flag_table(), or an old name of some
  already_so,  ///< chooses an implementation, a tuning or a format that Tessera chooses itself
  missing,     ///< would change results or behaviour, and is not there: refused
};

/// Flags that share a topic and an explanation, as they are written down.
struct MegatronRow {
  std::string_view topic;
  /// Without dashes, separated by spaces; "=N" takes a value, "=N..." several, none is a switch.
  std::string_view names;
  /// What Tessera does instead, or why the flag is refused; empty for flags that are done.
  std::string_view text = {};
  /// Already so: the only values that are accepted. Missing: values that change nothing, and are
  /// accepted. Empty: all, or none.
  std::string_view values = {};
  /// The flag without which these have no effect, perhaps with its value: "fp8-format",
  /// "optimizer=muon".
  std::string_view only_with = {};
};

std::span<const MegatronRow> done_rows();
std::span<const MegatronRow> already_so_rows();
std::span<const MegatronRow> missing_rows();

struct MegatronFlag {
  std::string_view name;
  std::string_view placeholder;  ///< of the value: N, N...; empty for a switch
  Arity arity = Arity::none;
  MegatronClass kind = MegatronClass::missing;
  const MegatronRow* row = nullptr;

  /// Whether the row's `values` have all of these.
  bool lists(const Values& given) const;
};

/// In the order of the rows.
const std::vector<MegatronFlag>& megatron_flags();
const MegatronFlag* find_megatron_flag(std::string_view name);

/// A value of a flag that is done, which Megatron has and Tessera has not.
struct MissingValue {
  std::string_view flag, value;
  std::string_view text;  ///< why it is refused
  /// Another flag, which would be right with this value: rules about it are not reported.
  std::string_view goes_with = {};
};
/// Null for any other value.
const MissingValue* find_missing_value(std::string_view flag, std::string_view value);

/// The tables of docs/megatron.md.
std::string megatron_page();

}  // namespace tessera::config
