// The CPU cores that ranks run on, and their division among ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// A rank's index among the ranks that share the same cores.
struct CoreShare {
  int index = 0;
  int count = 1;
};

/// The range of `cores` neighbouring cores for share `index` of `count`.
struct CoreRange {
  int begin = 0;
  int end = 0;
};
CoreRange range_of_share(int cores, CoreShare share);

/// The cores that this thread may run on (a container, taskset or a launcher may restrict them),
/// ordered so that physical neighbours are adjacent.
class Cores {
 public:
  Cores();
  ~Cores();
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  int count() const;
  /// All of them as text, such as "0-3,8". Equal for processes of a machine that share cores.
  std::string to_string() const;

  /// What is pinned: this thread and those that it starts afterwards, or the whole process.
  enum class Scope { thread, process };
  /// Pins to the given share of the cores. Does nothing if there are fewer cores than shares.
  /// Returns the reason of a failure, or nothing.
  std::string pin(CoreShare share, Scope scope) const;

 private:
  struct Topology;
  std::unique_ptr<Topology> topology_;
};

/// Clang's OpenMP pins all threads of a process to the cores of the thread that used it first. This
/// call prevents that; it must come before ranks start as threads and before OpenMP is used.
void keep_openmp_from_tying_threads();

/// The share of rank `rank` among the ranks with the same `places` (machine and cores).
CoreShare share_of_place(const std::vector<std::string>& places, int rank);

/// A text that is equal on all processes of this machine and different on any other.
std::string machine_name();

}  // namespace tessera
