// The algorithms that were found fastest for matrix products, kept in a text file, so that a shape
// is timed once per device and library version and later runs compute the same bits.
//
// A line holds, parted by tabs: the device and library (the setting), the problem, the algorithm's
// opaque bytes in hex, and a checksum of all before it. Runs may share a file: a writer takes in
// what others wrote, and lines of other settings stay in it. Of the ranks of a run rank 0 has it;
// the others are given its lines as text.
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

/// The library's description of an algorithm, which only the same version of it can read.
using GemmAlgorithm = std::array<std::uint64_t, 8>;

class GemmAutotuneCache {
 public:
  /// Reads `file`. Damaged lines are left out with a warning; a file that cannot be used at all is
  /// not an error either. With an empty name nothing outlives the object.
  GemmAutotuneCache(fs::path file, std::string setting);

  std::optional<GemmAlgorithm> find(const std::string& problem) const;
  /// Replaces the algorithm for `problem`, and the file.
  void store(const std::string& problem, const GemmAlgorithm& algorithm);

  /// The lines of this setting.
  std::string text() const;
  /// Takes lines of text(), of several objects too: the first one for a problem counts, and
  /// replaces the own algorithm. The file follows.
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
