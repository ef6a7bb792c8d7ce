// BLAS libraries loaded at run time, all behind one call, so that one program can compare them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tessera::bench {

/// c[m, n] = op(a)[m, k] op(b)[k, n] + beta c, row-major; strides are distances between rows.
struct Sgemm {
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const float* b = nullptr;
  std::int64_t b_stride = 0;
  float beta = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
};

struct BlasLibrary {
  std::string name;  ///< with its version
  std::function<void(const Sgemm&)> sgemm;
  /// How many threads calls from the calling thread use. Every thread that calls sgemm says it.
  std::function<void(int)> set_threads;
  std::shared_ptr<void> handle;
};

/// Those that are installed, of oneDNN, OpenBLAS and BLIS, each checked against plain loops.
/// Prints why one was left out. The last two must be OpenMP builds: the serial OpenBLAS is not safe
/// to call from several threads.
std::vector<BlasLibrary> load_blas_libraries();

}  // namespace tessera::bench
