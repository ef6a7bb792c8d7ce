// Work in a process of its own, for tests that kill it.
#pragma once

#include <unistd.h>

namespace tessera::test {

/// The new process, which says nothing and ends with 0 when `work()` is true, 1 when it is false
/// and 2 when it throws.
template <class Work>
pid_t in_a_process(const Work& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::close(STDERR_FILENO);
  try {
    ::_exit(work() ? 0 : 1);
  } catch (...) {
    ::_exit(2);
  }
}

}  // namespace tessera::test
