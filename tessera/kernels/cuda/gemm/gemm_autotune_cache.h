// Cache of autotuned matrix products in a text file: a problem is timed once per device and library
// version, and later runs use the same algorithms and compute the same bits.
//
// A line holds, separated by tabs: the setting (device and library version), the problem, the
// algorithm's opaque bytes in hex, and a checksum of everything before it. Several runs may share a
// file: a writer first merges what others have written, and keeps lines of other settings. Within a
// run only rank 0 has the file; the other ranks receive its lines as text.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/files.h"

namespace tessera::cuda {

/// cuBLASLt's opaque description of an algorithm, valid only for the same library version.
using GemmAlgorithm = std::array<std::uint64_t, 8>;

class GemmAutotuneCache {
 public:
  /// Reads `file`. Damaged lines are skipped with a warning, and a file that cannot be read is a
  /// warning, too. With an empty path the cache lives only in memory.
  GemmAutotuneCache(fs::path file, std::string setting);

  std::optional<GemmAlgorithm> find(const std::string& problem) const;
  /// Replaces the algorithm for `problem` and rewrites the file.
  void store(const std::string& problem, const GemmAlgorithm& algorithm);

  /// The lines of this setting.
  std::string text() const;
  /// Merges lines of text(), possibly of several ranks: the first line for a problem wins and
  /// replaces the own algorithm. Rewrites the file.
  void take(std::string_view text);

 private:
  struct Report {
    int damaged = 0;
    int foreign = 0;  ///< of other settings
  };

  std::string key_of(const std::string& problem) const { return setting_ + '\t' + problem; }
  /// Adds the algorithms of the lines to those that are known.
  Report add(std::string_view lines);
  Report read();
  void write() const;
  void update_file();
  void warn(const std::exception& error);

  fs::path file_;
  std::string setting_;
  std::map<std::string, GemmAlgorithm> algorithms_;  ///< by setting and problem
  bool warned_ = false;
};

}  // namespace tessera::cuda
