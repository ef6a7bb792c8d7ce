// Which sequences train, validate and test: a weight for each, as in "969,30,1".
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class Split { train, valid, test };
constexpr int kSplits = 3;
std::string_view to_string(Split split);

/// Sequences [begin, end).
struct SequenceRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const SequenceRange&) const = default;
};

/// Cuts `sequences` by one to three weights (missing ones are 0), with Megatron's arithmetic: the
/// weights are normalised and summed up in double, and borders round half to even. InputError
/// unless the weights are numbers of at least 0, not all 0.
std::array<SequenceRange, kSplits> split_ranges(std::string_view weights, std::int64_t sequences);

}  // namespace tessera
