#include "tessera/config/yaml_reader.h"

#include <yaml-cpp/yaml.h>

#include "tessera/base/check.h"
#include "tessera/config/value.h"
#include "tessera/config/yaml_guard.h"

namespace tessera::config {
namespace {

YamlEntry read_entry(const YAML::Node& key, const YAML::Node& value, std::string_view what) {
  const int line = key.Mark().line + 1;
  check_input(key.IsScalar(), "{}:{}: a name is not text", what, line);
  YamlEntry entry{key.Scalar(), {}, line};
  check_input(!value.IsNull(), "{}:{}: {} has no value", what, line, quote(entry.key));
  if (value.IsScalar()) {
    entry.values.push_back(value.Scalar());
    return entry;
  }
  check_input(value.IsSequence(), "{}:{}: {} has a nested value: expected a scalar or a list", what,
              line, quote(entry.key));
  for (const YAML::Node& item : value) {
    check_input(item.IsScalar(), "{}:{}: {} has a list item that is not a scalar", what, line,
                quote(entry.key));
    entry.values.push_back(item.Scalar());
  }
  return entry;
}

}  // namespace

std::vector<YamlEntry> read_flat_yaml(std::string_view text, std::string_view what) {
  check_flat_yaml(text, what);
  std::vector<YamlEntry> entries;
  try {
    const YAML::Node document = YAML::Load(std::string(text));
    if (document.IsNull()) return entries;
    check_input(document.IsMap(), "{}: expected lines of 'name: value'", what);
    for (const auto& pair : document) entries.push_back(read_entry(pair.first, pair.second, what));
  } catch (const YAML::Exception& error) {
    fail_input("{}:{}: not valid YAML: {}", what, error.mark.line + 1, error.msg);
  }
  return entries;
}

}  // namespace tessera::config
