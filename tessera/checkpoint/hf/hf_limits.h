// The largest sizes that are taken from a config.json: far above any model that exists, and low
// enough that no product of three overflows.
#pragma once

#include <cstdint>

namespace tessera {

inline constexpr std::int64_t kMaxHfLayers = 10'000;
inline constexpr std::int64_t kMaxHfWidth = std::int64_t{1} << 22;
inline constexpr std::int64_t kMaxHfHeads = std::int64_t{1} << 14;
inline constexpr std::int64_t kMaxHfHeadSize = std::int64_t{1} << 14;
inline constexpr std::int64_t kMaxHfExperts = std::int64_t{1} << 12;
/// Each is a few tensors, which are listed before they are looked for.
inline constexpr std::int64_t kMaxHfExpertsOfAllLayers = std::int64_t{1} << 17;
inline constexpr std::int64_t kMaxHfVocabulary = std::int64_t{1} << 31;
inline constexpr std::int64_t kMaxHfPositions = std::int64_t{1} << 30;
inline constexpr double kMaxHfScale = 1e6;

}  // namespace tessera
