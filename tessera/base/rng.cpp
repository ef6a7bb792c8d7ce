#include "tessera/base/rng.h"

namespace tessera {
namespace {

// Finaliser of SplitMix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

RngKey rng_key(std::uint64_t seed, RngPurpose purpose, std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325u;  // FNV-1a over the name
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mix(mix(seed + 0x9e3779b97f4a7c15u) ^ mix(h + static_cast<std::uint64_t>(purpose)));
}

}  // namespace tessera
