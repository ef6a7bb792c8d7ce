// The largest values that options may have: far above any model or run that exists, and low enough
// that products of two sizes fit 64 bits. Products of more are checked by the rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr std::int64_t kMaxLayers = 1 << 16;
inline constexpr std::int64_t kMaxHidden = 1 << 20;
inline constexpr std::int64_t kMaxFfn = 1 << 22;
inline constexpr std::int64_t kMaxExperts = 1 << 16;
/// Depths of multi-token prediction: a step's record has room for so many more losses.
inline constexpr std::int64_t kMaxMtpLayers = 8;
inline constexpr std::int64_t kMaxHeads = 1 << 16;
inline constexpr std::int64_t kMaxHeadSize = 1 << 14;
/// Of attention on a GPU.
inline constexpr std::int64_t kMaxGpuHeadSize = 256;
inline constexpr std::int64_t kMaxVocabulary = 1 << 26;
inline constexpr std::int64_t kMaxPositions = 1 << 28;
inline constexpr std::int64_t kMaxSequence = 1 << 24;
inline constexpr std::int64_t kMaxMicroBatch = 1 << 16;
inline constexpr std::int64_t kMaxBatch = 1 << 24;
inline constexpr std::int64_t kMaxIterations = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxSamples = std::int64_t{1} << 48;
inline constexpr std::int64_t kMaxRanks = 1 << 20;
/// Ranks of a square grid.
inline constexpr std::int64_t kMaxGridSide = 1 << 10;
/// Ranks that one program starts itself, as threads or processes.
inline constexpr std::int64_t kMaxStartedRanks = 1 << 10;
/// Threads of a rank that read data.
inline constexpr std::int64_t kMaxWorkers = 1 << 6;
inline constexpr std::int64_t kMaxMinutes = 1 << 24;
inline constexpr std::int64_t kMaxStagingMib = std::int64_t{1} << 32;
/// NumPy's generator, which data order follows, takes a 32-bit seed.
inline constexpr std::int64_t kMaxSeed = (std::int64_t{1} << 32) - 1;

inline constexpr double kMaxParameters = 1e15;
/// Elements of one tensor, tokens of one run.
inline constexpr double kMaxElements = 1e18;

/// What the system takes as a path.
inline constexpr std::size_t kMaxPathBytes = 4095;
inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

}  // namespace tessera
