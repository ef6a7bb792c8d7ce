// Filters the standard error of mpirun and its ranks: drops what mpirun prints when a job fails,
// since the failing rank has printed the reason already.
#pragma once

#include <optional>
#include <string>

namespace tessera {

class MpirunOutput {
 public:
  /// Takes the next line, without its line end, and returns the text to show: nothing, or whole
  /// lines.
  std::string pass(const std::string& line);
  /// The remaining text after the last line.
  std::string rest();
  /// The rank that was ended by a signal, according to mpirun.
  std::optional<int> killed() const { return killed_; }

 private:
  void note_killed(const std::string& line);

  // mpirun prints its messages between two lines of dashes.
  bool in_words_ = false;
  std::string rule_;  ///< a line of dashes that may begin a message
  std::optional<int> killed_;
};

}  // namespace tessera
