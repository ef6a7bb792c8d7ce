// What mpirun and the ranks under it write to standard error, without what mpirun adds when a job
// fails: a rank that fails has said why already.
#pragma once

#include <optional>
#include <string>

namespace tessera {

class MpirunOutput {
 public:
  /// Takes the next line, without its end, and returns what to show of it: nothing, or whole lines.
  std::string pass(const std::string& line);
  /// What is left when no more lines come.
  std::string rest();
  /// The rank that mpirun says was ended by a signal.
  std::optional<int> killed() const { return killed_; }

 private:
  void note_killed(const std::string& line);

  // mpirun sets its words between two lines of dashes.
  bool in_words_ = false;
  std::string rule_;  ///< a line of dashes of which it is not known yet what it begins
  std::optional<int> killed_;
};

}  // namespace tessera
