// Command lines that tests start from.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/parse.h"
#include "tessera/config/resolve.h"
#include "tessera/config/rules/validate.h"

namespace tessera::test {

/// A complete, valid training.
inline constexpr std::string_view kTraining =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --seq-length 32 --micro-batch-size 2 "
    "--global-batch-size 8 --train-iters 100 --lr 1e-3 --mock-data";

/// Split at spaces.
inline std::vector<std::string> words(std::string_view line) {
  std::istringstream stream{std::string(line)};
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

inline ParsedCommand parse(std::string_view command, std::string_view line) {
  return parse_command(command, words(line));
}

/// The training above with more flags.
inline ParsedCommand train_with(std::string_view line) {
  return parse("train", std::string(kTraining) + " " + std::string(line));
}

/// All that happens before work starts.
inline ParsedCommand accept(std::string_view command, std::string_view line) {
  ParsedCommand parsed = parse(command, line);
  resolve(parsed.options);
  validate(parsed);
  return parsed;
}

}  // namespace tessera::test
