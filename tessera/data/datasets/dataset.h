// A dataset is a size and a way to get sample i: everything else wraps that.
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

/// Where a sample goes: memory of the caller, each [seq_length].
struct SampleView {
  std::span<std::int32_t> tokens;
  std::span<std::int32_t> labels;  ///< the token that follows each one
  std::span<float> loss_mask;      ///< 1 where the loss counts, else 0
  std::span<std::int32_t> positions;
  /// Where documents begin that do not see each other, the first at 0; then seq_length, up to the
  /// end. Empty: not asked for.
  std::span<std::int32_t> documents = {};
};

/// Two numbers as one that hardly any other two give.
constexpr std::uint64_t mixed_number(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual std::int64_t seq_length() const = 0;
  /// Const, without allocation (but for text, fim_dataset.h), and safe from several threads;
  /// 0 <= i < size().
  virtual void get(std::int64_t i, const SampleView& sample) const = 0;
  /// A number that identifies the contents of sample i without reading it; collisions are very
  /// unlikely.
  virtual std::uint64_t identity(std::int64_t i) const { return static_cast<std::uint64_t>(i); }
};

}  // namespace tessera
