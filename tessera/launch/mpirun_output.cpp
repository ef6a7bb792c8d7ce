#include "tessera/launch/mpirun_output.h"

#include <array>
#include <regex>
#include <utility>

namespace tessera {
namespace {

bool is_rule(const std::string& line) {
  return line.size() >= 40 && line.find_first_not_of('-') == std::string::npos;
}

// By what mpirun's words on a failed job are known; anything else between dashes is shown.
constexpr std::array kOnFailure = {"mpirun noticed that", "mpirun detected that",
                                   "Primary job  terminated", "MPI_ABORT was invoked"};

// What mpirun says of itself while it ends a job.
bool is_own_trouble(const std::string& line) {
  return line.starts_with('[') && line.find("] ORTE_ERROR_LOG: ") != std::string::npos;
}

}  // namespace

std::string MpirunOutput::pass(const std::string& line) {
  if (is_own_trouble(line)) return "";
  if (!in_block_ && !is_rule(line)) return line + "\n";
  const bool closes = in_block_ && is_rule(line);
  in_block_ = true;
  block_ += line + "\n";
  return closes ? close_block() : "";
}

std::string MpirunOutput::rest() { return close_block(); }

std::string MpirunOutput::close_block() {
  in_block_ = false;
  std::string block = std::exchange(block_, "");
  std::smatch found;
  if (std::regex_search(block, found, std::regex("process rank ([0-9]+) with PID")))
    killed_ = std::stoi(found[1]);
  for (const char* words : kOnFailure)
    if (block.find(words) != std::string::npos) return "";
  return block;
}

}  // namespace tessera
