// Counter-based randomness: a number is a pure function of (key, counter), so any rank can draw any
// element.
//
//   key      = hash(seed, purpose, name of the layer or parameter)
//   counter  = what the element is, in global terms (never where it is stored)
//
// Every operation below is exactly rounded (+, x, /, fma, sqrt), so the CPU and the GPU draw equal
// bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "tessera/base/host_device.h"

namespace tessera {

using RngKey = std::uint64_t;

/// Purposes keep streams apart that share a name.
enum class RngPurpose : std::uint32_t {
  weights = 1,
  hidden_dropout = 2,
  attention_dropout = 3,
  sampling = 4,
  test = 5,
  router_jitter = 6
};

RngKey rng_key(std::uint64_t seed, RngPurpose purpose, std::string_view name);

struct Philox4 {
  std::uint32_t v[4];
};

/// Philox4x32-10: four 32-bit words for one counter.
TESSERA_HOST_DEVICE inline Philox4 philox(RngKey key, Philox4 counter) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  Philox4 c = counter;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c.v[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c.v[2];
    c = Philox4{{static_cast<std::uint32_t>(p1 >> 32) ^ c.v[1] ^ k0, static_cast<std::uint32_t>(p1),
                 static_cast<std::uint32_t>(p0 >> 32) ^ c.v[3] ^ k1,
                 static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// The words of a 64-bit element index: used for weights, four elements per counter.
TESSERA_HOST_DEVICE inline std::uint32_t philox_word(RngKey key, std::uint64_t element) {
  const std::uint64_t block = element >> 2;
  const Philox4 words = philox(key, Philox4{{static_cast<std::uint32_t>(block),
                                             static_cast<std::uint32_t>(block >> 32), 0, 0}});
  return words.v[element & 3];
}

/// Uniform in (0, 1): the midpoints of 2^32 equal cells, so neither end occurs.
TESSERA_HOST_DEVICE inline double uniform_from_word(std::uint32_t word) {
  return (static_cast<double>(word) + 0.5) * 2.3283064365386962890625e-10;
}

/// The standard normal value at probability `u` in (0, 1). Relative error below 1e-15 at the cell
/// midpoints.
TESSERA_HOST_DEVICE double normal_from_uniform(double u);

namespace detail {

// Natural logarithm for 0 < x < 1 from exactly rounded operations only.
TESSERA_HOST_DEVICE inline double exact_log(double x) {
  int exponent = 0;
  while (x < 0.70710678118654752) {  // at most 33 doublings for a cell midpoint
    x += x;
    --exponent;
  }
  const double s = (x - 1.0) / (x + 1.0);
  const double z = s * s;
  double p = 1.0 / 21.0;  // atanh series; |s| < 0.172, so 11 terms reach double precision
  for (int k = 19; k >= 1; k -= 2) p = fma(p, z, 1.0 / k);
  return fma(static_cast<double>(exponent), 0.69314718055994530942, 2.0 * s * p);
}

template <int N>
TESSERA_HOST_DEVICE inline double horner(const double (&c)[N], double x) {
  double y = c[N - 1];
  for (int i = N - 2; i >= 0; --i) y = fma(y, x, c[i]);
  return y;
}

}  // namespace detail

// The inverse normal distribution by rational minimax functions (Wichura's algorithm AS 241,
// PPND16).
TESSERA_HOST_DEVICE inline double normal_from_uniform(double u) {
  const double a[8] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                       1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                       3.3430575583588128105e4, 2.5090809287301226727e3};
  const double b[8] = {1.0,
                       4.2313330701600911252e1,
                       6.8718700749205790830e2,
                       5.3941960214247511077e3,
                       2.1213794301586595867e4,
                       3.9307895800092710610e4,
                       2.8729085735721942674e4,
                       5.2264952788528545610e3};
  const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                       5.76949722146069140550e0,  3.64784832476320460504e0,
                       1.27045825245236838258e0,  2.41780725177450611770e-1,
                       2.27238449892691845833e-2, 7.74545014278341407640e-4};
  const double d[8] = {1.0,
                       2.05319162663775882187e0,
                       1.67638483018380384940e0,
                       6.89767334985100004550e-1,
                       1.48103976427480074590e-1,
                       1.51986665636164571966e-2,
                       5.47593808499534494600e-4,
                       1.05075007164441684324e-9};
  const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                       1.78482653991729133580e0,  2.96560571828504891230e-1,
                       2.65321895265761230930e-2, 1.24266094738807843860e-3,
                       2.71155556874348757815e-5, 2.01033439929228813265e-7};
  const double f[8] = {1.0,
                       5.99832206555887937690e-1,
                       1.36929880922735805310e-1,
                       1.48753612908506148525e-2,
                       7.86869131145613259100e-4,
                       1.84631831751005468180e-5,
                       1.42151175831644588870e-7,
                       2.04426310338993978564e-15};
  const double q = u - 0.5;
  if (fabs(q) <= 0.425) {
    const double r = fma(-q, q, 0.180625);
    return q * (detail::horner(a, r) / detail::horner(b, r));
  }
  const double tail = q < 0 ? u : 1.0 - u;
  const double r = sqrt(-detail::exact_log(tail));
  const double x = r <= 5.0 ? detail::horner(c, r - 1.6) / detail::horner(d, r - 1.6)
                            : detail::horner(e, r - 5.0) / detail::horner(f, r - 5.0);
  return q < 0 ? -x : x;
}

/// A dropout decision keeps an element when its word is at or above this bound.
inline std::uint32_t dropout_bound(double probability) {
  const double scaled = probability * 4294967296.0;
  return scaled >= 4294967295.0 ? 0xffffffffu : static_cast<std::uint32_t>(scaled);
}

}  // namespace tessera
