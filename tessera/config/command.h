// The commands of the program, and sets of them.
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

namespace tessera {

enum class Command {
  train,
  preprocess,
  merge_data,
  split_data,
  tokenize,
  train_tokenizer,
  generate,
  evaluate,
  inspect,
  convert
};

inline constexpr std::array kCommands = {
    Command::train,    Command::preprocess,      Command::merge_data, Command::split_data,
    Command::tokenize, Command::train_tokenizer, Command::generate,   Command::evaluate,
    Command::inspect,  Command::convert};

std::string_view to_string(Command command);
/// One line for --help.
std::string_view command_summary(Command command);
/// InputError, with the nearest name, for any other text.
Command command_from_name(std::string_view name);

class CommandSet {
 public:
  constexpr CommandSet(std::initializer_list<Command> commands) {
    for (const Command command : commands) bits_ |= 1u << static_cast<unsigned>(command);
  }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(Command command) const {
    return (bits_ >> static_cast<unsigned>(command) & 1u) != 0;
  }

 private:
  unsigned bits_ = 0;
};

}  // namespace tessera
