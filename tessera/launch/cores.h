// The cores that ranks run on, and how they are dealt out.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// A rank's place among those that have the same cores to run on.
struct CoreShare {
  int index = 0;
  int count = 1;
};

/// Which of `cores` neighbouring cores, in order, share number `index` of `count` has.
struct CoreRange {
  int begin = 0;
  int end = 0;
};
CoreRange range_of_share(int cores, CoreShare share);

/// The cores that this thread may run on (a container, taskset or a launcher may have left it only
/// some), in the order in which they lie beside each other in the machine.
class Cores {
 public:
  Cores();
  ~Cores();
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  int count() const;
  /// All of them as text, such as "0-3,8": equal for processes of a machine that share cores.
  std::string to_string() const;

  /// What is tied to cores: this thread and those it starts from now on, or all of the process.
  enum class Scope { thread, process };
  /// Ties it to its share of the cores; with fewer cores than shares there is nothing to gain, and
  /// nothing is done. Returns why it failed, or nothing.
  std::string pin(CoreShare share, Scope scope) const;

 private:
  struct Topology;
  std::unique_ptr<Topology> topology_;
};

/// Clang's OpenMP ties all threads of a process to the cores of the one that used it first, unless
/// it is told not to. To be called before ranks start as threads, and before OpenMP is used.
void keep_openmp_from_tying_threads();

/// The share of the rank `rank` of those whose `places` (machine and cores) are equal to its own.
CoreShare share_of_place(const std::vector<std::string>& places, int rank);

/// The same text on all processes of this machine, another on any other machine.
std::string machine_name();

}  // namespace tessera
