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

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual std::int64_t seq_length() const = 0;
  /// Const, without allocation, and safe from several threads; 0 <= i < size().
  virtual void get(std::int64_t i, const SampleView& sample) const = 0;
};

}  // namespace tessera
