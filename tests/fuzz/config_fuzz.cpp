// Any bytes as a configuration file, and as a command line: they are refused with an InputError, or
// the options they give survive printing and reading back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/config/print.h"
#include "tessera/config/resolve.h"
#include "tessera/config/rules/validate.h"

namespace {

using namespace tessera;

void expect(bool ok) {
  if (!ok) std::abort();
}

void fuzz_yaml(std::string_view text) {
  Options options;
  try {
    options = options_from_yaml(text, "fuzz");
  } catch (const InputError&) {
    return;
  }
  resolve(options);
  Options again = options_from_yaml(print_config(options), "printed");
  resolve(again);
  expect(again == options);
}

void validate_quietly(const ParsedCommand& parsed) {
  try {
    validate(parsed);
    validate_model(parsed.options.model);
  } catch (const InputError&) {
    // As good an answer as none.
  }
}

// The first byte chooses the command; the rest are arguments, one a line.
void fuzz_arguments(std::uint8_t choice, std::string_view text) {
  std::vector<std::string> args;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string argument(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    // Files are the other half's business.
    if (!argument.starts_with("--config")) args.push_back(std::move(argument));
  }
  try {
    ParsedCommand parsed = parse_command(to_string(kCommands[choice % kCommands.size()]), args);
    resolve(parsed.options);
    validate_quietly(parsed);
    expect(!print_config(parsed).empty());
  } catch (const InputError&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] < 128)
    fuzz_yaml(text);
  else
    fuzz_arguments(data[0], text);
  return 0;
}
