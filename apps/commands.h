// The subcommands of the program. Each takes a parsed command line; errors are exceptions.
#pragma once

#include <string>
#include <vector>

#include "tessera/config/parse.h"

namespace tessera {

/// `arguments` are all of the program's, for processes that it starts. Returns the exit code.
int train_command(ParsedCommand& parsed, const std::vector<std::string>& arguments);
void preprocess_command(const ParsedCommand& parsed);
void merge_data_command(const ParsedCommand& parsed);
void split_data_command(const ParsedCommand& parsed);
int generate_command(ParsedCommand& parsed, const std::vector<std::string>& arguments);
int evaluate_command(ParsedCommand& parsed, const std::vector<std::string>& arguments);
/// Returns the exit code.
int inspect_command(ParsedCommand& parsed);
void convert_command(const ParsedCommand& parsed);
void tokenize_command(const ParsedCommand& parsed);
void train_tokenizer_command(const ParsedCommand& parsed);
/// `tessera verify ...`: whether the layout of a training computes what one rank does. Returns the
/// exit code.
int verify_command(const std::vector<std::string>& args);
/// `tessera bench train ...`: how fast a model trains here.
void bench_command(const std::vector<std::string>& args);

}  // namespace tessera
