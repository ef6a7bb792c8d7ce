#include "tessera/config/print.h"

#include "tessera/base/json.h"
#include "tessera/config/flags/flag_table.h"

namespace tessera {
namespace {

using config::Flag;
using config::Group;
using config::Values;

// A JSON string is a YAML string too.
std::string yaml_scalar(const Flag& flag, const std::string& value) {
  return flag.quoted ? Json(value).dump(-1, ' ', false, Json::error_handler_t::replace) : value;
}

std::string yaml_lines(const Flag& flag, const Values& values) {
  if (values.size() == 1)
    return fmt::format("{}: {}\n", flag.name, yaml_scalar(flag, values.front()));
  std::string lines = fmt::format("{}:\n", flag.name);
  for (const std::string& value : values)
    lines += fmt::format("  - {}\n", yaml_scalar(flag, value));
  return lines;
}

// Whether a loaded model decides the option, when no flag does.
bool comes_with_model(const Flag& flag) {
  return flag.group == Group::model || flag.group == Group::precision ||
         flag.group == Group::tokenizer;
}

bool is_decided(const Flag& flag, const ParsedCommand& parsed) {
  const TrainOptions& train = parsed.options.train;
  const bool loads =
      !train.load.empty() || !train.load_hf.empty() || !parsed.convert.from_hf.empty();
  if (parsed.command == Command::train || !loads || !comes_with_model(flag)) return true;
  bool given = parsed.was_given(flag.name);
  for (const Flag& other : config::flag_table())
    given |= !flag.alternative.empty() && other.alternative == flag.alternative &&
             parsed.was_given(other.name);
  return given;
}

}  // namespace

std::string print_config(const ParsedCommand& parsed) {
  std::string text = fmt::format("# tessera {}\n", to_string(parsed.command));
  for (const auto& [group, title] : config::group_titles()) {
    std::string lines;
    for (const Flag& flag : config::flag_table()) {
      if (flag.group != group || !flag.commands.has(parsed.command)) continue;
      const auto values = flag.get(parsed);
      if (values && flag.has_effect(parsed) && is_decided(flag, parsed))
        lines += yaml_lines(flag, *values);
    }
    if (!lines.empty()) text += fmt::format("\n# {}\n{}", title, lines);
  }
  return text;
}

std::string print_config(const Options& options) {
  ParsedCommand parsed;
  parsed.options = options;
  return print_config(parsed);
}

}  // namespace tessera
