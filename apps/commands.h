// The subcommands of the program. Each takes a parsed command line; errors are exceptions.
#pragma once

#include "tessera/config/parse.h"

namespace tessera {

void train_command(ParsedCommand& parsed);
void preprocess_command(const ParsedCommand& parsed);
void generate_command(ParsedCommand& parsed);
void evaluate_command(ParsedCommand& parsed);
void inspect_command(ParsedCommand& parsed);

}  // namespace tessera
