#include "tessera/config/flags/flag_table.h"

#include <algorithm>

#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr CommandSet kAll = {Command::train,      Command::preprocess, Command::merge_data,
                             Command::split_data, Command::tokenize,   Command::train_tokenizer,
                             Command::generate,   Command::evaluate,   Command::inspect,
                             Command::convert};

void append_general_flags(std::vector<Flag>& table) {
  std::vector<Flag> flags = {
      toggle("help", at(&Settings::help), "show this text and stop").never_shown(),
      path("config", at(&Settings::config), "FILE",
           "read options from a YAML file, one 'name: value' on a line; the command line wins")
          .never_shown(),
      toggle("print-config", at(&Settings::print_config),
             "print all options as YAML that --config reads, and stop")
          .never_shown(),
      toggle("strict-flags", at(&Settings::strict_flags),
             "refuse flags of Megatron-LM that are accepted without need, and flags without effect")
          .never_shown(),
  };
  for (Flag& flag : flags) flag.command_line_only = true;
  append(table, Group::general, kAll, std::move(flags));
}

std::vector<Flag> build_table() {
  std::vector<Flag> table;
  append_general_flags(table);
  append_model_flags(table);
  append_run_flags(table);
  append_parallel_flags(table);
  append_pipeline_flags(table);
  append_optimizer_flags(table);
  append_data_flags(table);
  append_tokenizer_flags(table);
  append_preprocess_flags(table);
  append_checkpoint_flags(table);
  append_convert_flags(table);
  return table;
}

}  // namespace

void append(std::vector<Flag>& table, Group group, CommandSet commands, std::vector<Flag> flags) {
  for (Flag& flag : flags) {
    flag.group = group;
    if (flag.commands.empty()) flag.commands = commands;
    table.push_back(std::move(flag));
  }
}

const std::vector<Flag>& flag_table() {
  static const std::vector<Flag> table = build_table();
  return table;
}

const Flag* find_flag(std::string_view name) {
  const auto& table = flag_table();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Flag& flag) { return flag.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace tessera::config
