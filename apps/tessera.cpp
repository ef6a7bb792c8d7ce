// tessera <command> [flags]: one program for the whole life of a model.
#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "tessera/base/check.h"
#include "tessera/base/lost_pages.h"
#include "tessera/config/print.h"
#include "tessera/launch/launch.h"

namespace {

using namespace tessera;

std::string usage() {
  std::string text = "usage: tessera <command> [flags]\n\ncommands:\n";
  for (const Command command : kCommands)
    text += fmt::format("  {:<15} {}\n", to_string(command), command_summary(command));
  text += fmt::format("  {:<15} {}\n", "verify",
                      "proves that a layout of ranks trains as one rank does");
  text +=
      fmt::format("  {:<15} {}\n", "bench", "times the training of a known model on random tokens");
  return text + "\n`tessera <command> --help` lists the flags of a command.\n";
}

// Commands that run on one rank would run, and speak, as often as a launcher starts them.
void check_not_launched(const std::string& command) {
  const Environment environment = recognise_environment(process_variable);
  const bool ranks = command == "train" || command == "generate" || command == "evaluate";
  check_input(ranks || environment.size == 1,
              "{} started {} ranks, but `tessera {}` runs on one: start it without {}",
              to_string(environment.launcher), environment.size, command,
              to_string(environment.launcher));
}

// The exit code.
int run(const std::vector<std::string>& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    fmt::print("{}", usage());
    return 0;
  }
  if (args[0] == "--version") {
    fmt::print("tessera {}\n", TESSERA_VERSION);
    return 0;
  }
  check_not_launched(args[0]);
  const std::vector<std::string> flags(args.begin() + 1, args.end());
  if (args[0] == "verify") return verify_command(flags);
  if (args[0] == "bench") {
    bench_command(flags);
    return 0;
  }
  ParsedCommand parsed = parse_without_check(args[0], flags);
  if (parsed.help) {
    fmt::print("{}", help_text(parsed.command));
    return 0;
  }
  // A training reports what is wrong with its flags together with the rules between them.
  if (parsed.command == Command::train) return train_command(parsed, args);
  parsed.problems.throw_if_any();
  log_notes(parsed.notes);
  switch (parsed.command) {
    case Command::train: break;
    case Command::preprocess: preprocess_command(parsed); break;
    case Command::merge_data: merge_data_command(parsed); break;
    case Command::split_data: split_data_command(parsed); break;
    case Command::generate: return generate_command(parsed, args);
    case Command::evaluate: return evaluate_command(parsed, args);
    case Command::inspect: return inspect_command(parsed);
    case Command::convert: convert_command(parsed); break;
    case Command::tokenize: tokenize_command(parsed); break;
    case Command::train_tokenizer: train_tokenizer_command(parsed); break;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  report_lost_pages();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails, and says so
  try {
    const int code = run(std::vector<std::string>(argv + 1, argv + argc));
    check(std::fflush(stdout) == 0, "standard output cannot be written: is the disk full?");
    return code;
  } catch (const std::exception& error) {
    return report_failure(error);
  }
}
