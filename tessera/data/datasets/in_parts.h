// Work on a long array by several threads at once: cut into equal parts, one thread each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace tessera {

/// As many parts as there are cores, but none so short that a thread would not be worth it.
inline int parts_of(std::int64_t size, std::int64_t at_least = std::int64_t{1} << 18) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return static_cast<int>(
      std::clamp<std::int64_t>(size / at_least, 1, std::min<std::int64_t>(cores, 16)));
}

/// The given number of parts, if there is one (above 0).
inline int parts_or(int given, std::int64_t size) { return given > 0 ? given : parts_of(size); }

/// Calls work(part, begin, end) for `parts` parts of [0, size), each in a thread of its own, and
/// throws the first of their errors when all are done.
template <class Work>
void in_parts(int parts, std::int64_t size, const Work& work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(parts));
  const auto run = [&](int part) {
    try {
      work(part, size / parts * part + std::min<std::int64_t>(part, size % parts),
           size / parts * (part + 1) + std::min<std::int64_t>(part + 1, size % parts));
    } catch (...) {
      errors[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int part = 1; part < parts; ++part) threads.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace tessera
