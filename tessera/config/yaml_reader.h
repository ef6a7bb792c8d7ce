// Reads a flat YAML file (yaml_guard.h): names with scalar or list values, all as text. The flag
// determines the type of a value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

struct YamlEntry {
  std::string key;
  std::vector<std::string> values;
  int line = 0;
};

/// InputError names `what` (a file, usually) and the line.
std::vector<YamlEntry> read_flat_yaml(std::string_view text, std::string_view what);

}  // namespace tessera::config
