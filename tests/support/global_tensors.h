// Whole tensors by global name, put together from the pieces that ranks hold: what any layout can
// be compared by.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/optim/parameter_buffers.h"
#include "tests/support/tensors.h"

namespace tessera::test {

struct GlobalTensor {
  Shape shape;
  std::vector<double> values;
};

using GlobalTensors = std::map<std::string, GlobalTensor>;

inline double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

inline double norm_of(const GlobalTensors& tensors) {
  double sum = 0;
  for (const auto& [name, tensor] : tensors) sum += norm_of(tensor.values) * norm_of(tensor.values);
  return std::sqrt(sum);
}

/// ||a - b|| / max(||b||, 1e-6 of the whole): the error measure of all tests.
inline double relative_error(const std::vector<double>& a, const std::vector<double>& b,
                             double whole) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum) / std::max(norm_of(b), 1e-6 * whole);
}

/// Ranks (threads) add their pieces under a lock.
class Gatherer {
 public:
  void add(const ShardedTensor& tensor, const View& storage) {
    const std::lock_guard lock(mutex_);
    GlobalTensor& whole = tensors_[tensor.name];
    whole.shape = tensor.global;
    whole.values.resize(static_cast<std::size_t>(tensor.global.numel()), std::nan(""));
    for (const ShardPiece& piece : tensor.pieces) add_piece(whole, piece, piece.in(storage));
  }
  /// Every parameter of a rank, from whole blocks laid out like its parameters (values, grads, a
  /// moment).
  void add_all(const std::vector<ParameterBlock>& blocks) {
    for (const ParameterBlock& block : blocks)
      for (const Bucket& bucket : block.buffers->layout().buckets())
        add_bucket(*block.buffers, bucket, block.buffers->bucket_in(block, bucket));
  }
  void add_bucket(const ParameterBuffers& buffers, const Bucket& bucket, const View& whole) {
    for (const std::size_t i : bucket.parameters)
      for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
        add(tensor, buffers.part(whole, i));
  }
  const GlobalTensors& tensors() const { return tensors_; }

 private:
  static void add_piece(GlobalTensor& whole, const ShardPiece& piece, const View& local) {
    dispatch_float(local.dtype(), "gather", [&]<class T>(TypeTag<T>) {
      for_each_offset(local, [&](std::size_t i, std::int64_t at) {
        std::int64_t global = 0, scale = 1;
        auto rest = static_cast<std::int64_t>(i);
        for (int d = local.rank() - 1; d >= 0; --d) {
          global += (piece.offset[d] + rest % local.dim(d)) * scale;
          rest /= local.dim(d);
          scale *= whole.shape[d];
        }
        whole.values[static_cast<std::size_t>(global)] =
            static_cast<double>(static_cast<Accumulator<T>>(local.data<T>()[at]));
      });
    });
  }

  std::mutex mutex_;
  GlobalTensors tensors_;
};

/// A key bias adds the same to all scores of a query, so without rotary positions its gradient is
/// zero in mathematics, and rounding noise of larger numbers is all there is to compare.
inline double noise_of(const std::string& name) {
  return name.ends_with(".attention.k.bias") ? 100 : 1;
}

/// Expects the same names and shapes, and every tensor within `tolerance`; returns the largest
/// error.
inline double expect_tensors_near(const GlobalTensors& got, const GlobalTensors& want,
                                  double tolerance) {
  double worst = 0;
  const double whole = norm_of(want);
  EXPECT_EQ(got.size(), want.size());
  for (const auto& [name, expected] : want) {
    const auto found = got.find(name);
    if (found == got.end()) {
      ADD_FAILURE() << "missing tensor " << name;
      continue;
    }
    EXPECT_EQ(found->second.shape, expected.shape) << name;
    const double error = relative_error(found->second.values, expected.values, whole);
    EXPECT_LE(error, tolerance * noise_of(name)) << name;
    worst = std::max(worst, std::isnan(error) ? INFINITY : error);
  }
  return worst;
}

}  // namespace tessera::test
