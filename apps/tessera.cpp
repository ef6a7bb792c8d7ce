// tessera <command> [flags]: one program for the whole life of a model.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "tessera/base/check.h"
#include "tessera/config/print.h"

namespace {

using namespace tessera;

std::string usage() {
  std::string text = "usage: tessera <command> [flags]\n\ncommands:\n";
  for (const Command command : kCommands)
    text += fmt::format("  {:<12} {}\n", name_of(command), summary_of(command));
  text +=
      fmt::format("  {:<12} {}\n", "bench", "times the training of a known model on random tokens");
  return text + "\n`tessera <command> --help` lists the flags of a command.\n";
}

void run(const std::vector<std::string>& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    fmt::print("{}", usage());
    return;
  }
  if (args[0] == "--version") return fmt::print("tessera {}\n", TESSERA_VERSION);
  if (args[0] == "bench")
    return bench_command(std::vector<std::string>(args.begin() + 1, args.end()));
  ParsedCommand parsed =
      parse_command(args[0], std::vector<std::string>(args.begin() + 1, args.end()));
  if (parsed.help) return fmt::print("{}", help_text(parsed.command));
  switch (parsed.command) {
    case Command::train: return train_command(parsed);
    case Command::preprocess: return preprocess_command(parsed);
    case Command::generate: return generate_command(parsed);
    case Command::evaluate: return evaluate_command(parsed);
    case Command::inspect: return inspect_command(parsed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(std::vector<std::string>(argv + 1, argv + argc));
    check(std::fflush(stdout) == 0, "standard output cannot be written: is the disk full?");
    return 0;
  } catch (const InputError& error) {
    fmt::print(stderr, "tessera: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera: {}\n", error.what());
    return 1;
  }
}
