// The subcommands of the program. Each takes a parsed command line; errors are exceptions.
#pragma once

#include <string>
#include <vector>

#include "tessera/config/parse.h"

namespace tessera {

void train_command(ParsedCommand& parsed);
void preprocess_command(const ParsedCommand& parsed);
void generate_command(ParsedCommand& parsed);
void evaluate_command(ParsedCommand& parsed);
void inspect_command(ParsedCommand& parsed);
/// `tessera bench train ...`: how fast a model trains here.
void bench_command(const std::vector<std::string>& args);

}  // namespace tessera
