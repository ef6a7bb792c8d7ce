#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "apps/commands.h"
#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/config/print.h"
#include "tessera/config/rules/validate.h"
#include "tessera/data/files/output_check.h"
#include "tessera/tokenizer/tokenize.h"

namespace tessera {
namespace {

void check_files(const TokenizeOptions& options) {
  std::error_code unknown;
  for (const std::string& name : options.inputs) {
    if (name == "-") continue;
    const bool is_there = fs::exists(name, unknown);
    check_input(!unknown, "'{}' cannot be read: {}", name, unknown.message());
    check_input(is_there, "there is no file '{}'", name);
    check_input(!fs::is_directory(name, unknown), "'{}' is a folder: name its files", name);
    check_is_no_input(options.output, name, "--output");
  }
  if (options.output.empty()) return;
  check_output_folder(options.output, "--output");
  check_may_write(options.output, options.overwrite, "--output");
}

void tokenize_inputs(const Tokenizer& tokenizer, const TokenizeOptions& options,
                     std::ostream& out) {
  for (const std::string& name : options.inputs) {
    std::ifstream in;
    if (name != "-") {
      in.open(name, std::ios::binary);
      check_input(in.is_open(), "'{}' cannot be read: {}", name, std::strerror(errno));
    }
    tokenize(tokenizer, options, name == "-" ? std::cin : in, name, out);
  }
  check(out.flush().good(), "the tokens cannot be written: is the disk full?");
}

// Under its real name there is all of it, or nothing.
void tokenize_to_file(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::string temporary = options.output + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  check_input(file.is_open(), "'{}' cannot be written: {}", temporary, std::strerror(errno));
  try {
    tokenize_inputs(tokenizer, options, file);
    file.close();
    fs::rename(temporary, options.output);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to tell
    fs::remove(temporary, ignored);
    throw;
  }
}

}  // namespace

void tokenize_command(const ParsedCommand& parsed) {
  validate(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const TokenizeOptions& options = parsed.tokenize;
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(parsed.options.data.tokenizer);
  check_files(options);
  if (options.output.empty())
    tokenize_inputs(*tokenizer, options, std::cout);
  else
    tokenize_to_file(*tokenizer, options);
}

}  // namespace tessera
