// golden/data_vectors.json, which make_data_vectors.py writes, and the hash that it uses.
#pragma once

#include <string>

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"

namespace tessera::test {

inline const Json& data_vectors() {
  static const Json vectors = parse_json(
      read_text_file(TESSERA_SOURCE_DIR "/tests/data/golden/data_vectors.json"), "data_vectors");
  return vectors;
}

/// FNV-1a over 64-bit words.
class Fnv {
 public:
  void add(std::uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3u; }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

template <class Values>
std::string fnv_of(const Values& values) {
  Fnv hash;
  for (const auto& value : values) hash.add(static_cast<std::uint64_t>(value));
  return hash.text();
}

}  // namespace tessera::test
