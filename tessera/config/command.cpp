#include "tessera/config/command.h"

#include <vector>

#include "tessera/base/check.h"
#include "tessera/config/suggest.h"
#include "tessera/config/value.h"

namespace tessera {
namespace {

struct Info {
  std::string_view name;
  std::string_view summary;
};

// In the order of the enumeration.
constexpr std::array<Info, kCommands.size()> kInfo = {{
    {"train", "trains a language model"},
    {"preprocess", "turns text into the .bin/.idx files that training reads"},
    {"merge-data", "joins pairs of .bin/.idx files into one"},
    {"split-data", "splits a pair of .bin/.idx files by documents"},
    {"tokenize", "turns text into tokens and back, and shows them"},
    {"train-tokenizer", "makes a tokenizer.json from text"},
    {"generate", "continues prompts with a trained model"},
    {"evaluate", "measures a trained model's loss on a data set or on given tokens"},
    {"inspect", "shows, verifies and compares checkpoints, and shows a model without running it"},
    {"convert", "imports and exports Hugging Face models"},
}};

const Info& info(Command command) { return kInfo[static_cast<std::size_t>(command)]; }

}  // namespace

std::string_view to_string(Command command) { return info(command).name; }

std::string_view command_summary(Command command) { return info(command).summary; }

Command command_from_name(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command command : kCommands) {
    if (to_string(command) == name) return command;
    names.push_back(to_string(command));
  }
  fail_input(
      "unknown command {}{}: expected train, preprocess, merge-data, split-data, tokenize, "
      "train-tokenizer, generate, evaluate, inspect or convert",
      config::quote(name), config::did_you_mean(name, names, ""));
}

}  // namespace tessera
