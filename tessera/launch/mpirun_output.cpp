#include "tessera/launch/mpirun_output.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace tessera {
namespace {

bool is_rule(const std::string& line) {
  return line.size() >= 40 && line.find_first_not_of('-') == std::string::npos;
}

// With what mpirun's words on a failed job begin; anything else between dashes is shown.
bool begins_words(const std::string& line) {
  constexpr std::array kBeginnings = {"mpirun noticed that", "mpirun detected that",
                                      "Primary job  terminated", "MPI_ABORT was invoked"};
  for (const char* beginning : kBeginnings)
    if (line.starts_with(beginning)) return true;
  return false;
}

// What mpirun says of itself while it ends a job, or tells it something.
bool is_own_trouble(const std::string& line) {
  return (line.starts_with('[') && line.find("] ORTE_ERROR_LOG: ") != std::string::npos) ||
         line.starts_with("mpirun: Forwarding signal ");
}

}  // namespace

std::string MpirunOutput::pass(const std::string& line) {
  if (is_own_trouble(line)) return "";
  if (in_words_) {
    note_killed(line);
    in_words_ = !is_rule(line);
    return "";
  }
  std::string before = std::exchange(rule_, "");
  if (is_rule(line)) {
    rule_ = line + "\n";
    return before;
  }
  in_words_ = !before.empty() && begins_words(line);
  if (!in_words_) return before + line + "\n";
  note_killed(line);
  return "";
}

void MpirunOutput::note_killed(const std::string& line) {
  constexpr std::string_view kBefore = "process rank ";
  const std::size_t found = line.find(kBefore);
  if (found == std::string::npos) return;
  const char* begin = line.data() + found + kBefore.size();
  int rank = 0;
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), rank);
  if (error == std::errc() && std::string_view(end).starts_with(" with PID")) killed_ = rank;
}

std::string MpirunOutput::rest() { return std::exchange(rule_, ""); }

}  // namespace tessera
