// Names of Megatron's that stand for other flags: of earlier versions, and of flags that Tessera
// writes in another way.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/config/flags/flag.h"

namespace tessera::config {

struct OldName {
  std::string_view name;  ///< without dashes
  /// The value for which this row holds; empty: any
  std::string_view value;
  /// The flags that it stands for, as on a command line without dashes, separated by ';'. $ is the
  /// value. Empty: it changes nothing.
  std::string_view meaning;
  Arity arity = Arity::one;
};

/// Rows of one name follow each other.
std::span<const OldName> old_names();
/// The first row of this name, or null.
const OldName* find_old_name(std::string_view name);

/// The flags and values that a name with this value stands for (a switch has the value "true").
/// Nothing: the value is none of those that the rows have.
std::optional<std::vector<std::pair<std::string, Values>>> meaning_of(std::string_view name,
                                                                      std::string_view value);

}  // namespace tessera::config
