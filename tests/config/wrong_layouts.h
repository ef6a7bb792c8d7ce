// Layouts that must be refused before a rank starts, each with its whole message.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/check.h"
#include "tests/config/command_lines.h"

namespace tessera::test {

struct WrongLayout {
  const char* line;  ///< added to the training below, in place of flags with the same name
  const char* message;
  int launched = 0;  ///< ranks that a launcher started; 0: none
};

// Whether `flag` is one of the line's words.
inline bool gives(std::string_view line, std::string_view flag) {
  return (std::string(line) + " ").find(std::string(flag) + " ") != std::string::npos;
}

// The flags of a small training without those that `line` gives itself.
inline std::string training_with(std::string_view line) {
  constexpr std::string_view kFlags[] = {
      "--num-layers 4",  "--hidden-size 64",       "--num-attention-heads 8",
      "--seq-length 32", "--micro-batch-size 2",   "--ffn-hidden-size 256",
      "--lr 1e-3",       "--global-batch-size 8",  "--train-iters 100",
      "--mock-data",     "--normalization RMSNorm"};
  std::string all(line);
  for (const std::string_view flag : kFlags)
    if (!gives(line, flag.substr(0, flag.find(' ')))) all += " " + std::string(flag);
  return all;
}

inline ParsedCommand check_layout(const char* line, int launched) {
  const std::optional<int> ranks = launched > 0 ? std::optional(launched) : std::nullopt;
  ParsedCommand parsed = parse("train", training_with(line));
  resolve(parsed.options, ranks);
  validate(parsed, ranks);
  return parsed;
}

// The error, or what is warned about.
inline std::string message_for(const WrongLayout& layout) {
  try {
    const ParsedCommand parsed = check_layout(layout.line, layout.launched);
    if (!parsed.notes.warnings.empty()) return parsed.notes.warnings.front();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

template <std::size_t N>
void expect_messages(const WrongLayout (&layouts)[N]) {
  for (const WrongLayout& layout : layouts)
    EXPECT_EQ(message_for(layout), layout.message) << layout.line;
}

}  // namespace tessera::test
