// One call of attention in host terms, with attention as plain loops in double: the whole matrix of
// probabilities of one head, made by the words of AttentionSpec.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tessera/kernels/dropout.h"
#include "tessera/kernels/specs.h"
#include "tests/support/tensors.h"

namespace tessera::test {

struct AttentionCase {
  std::string name;
  std::int64_t S, T, B, H, K, D;  ///< queries, keys, batch, query heads, key heads, head size
  std::int64_t E = 0;             ///< head size of values; 0: D
  bool causal = true;
  std::int64_t window = 0;
  std::int64_t chunk = 0;
  std::int64_t q_start = 0, kv_start = 0;
  Values documents = {};  ///< where they begin, the same number for each sample
  double p = 0;
  Values samples = {};
  std::int64_t head_start = 0;
  RngKey key = 99;
  double scale = 0.4;
  double softcap = 0;
  bool padded = false;  ///< whether q, k, v and o lie in larger tensors

  Shape q_shape() const { return {S, B, H, D}; }
  Shape k_shape() const { return {T, B, K, D}; }
  Shape v_shape() const { return {T, B, K, value_size()}; }
  Shape o_shape() const { return {S, B, H, value_size()}; }
  std::int64_t value_size() const { return E > 0 ? E : D; }
  std::size_t q_at(std::int64_t s, std::int64_t b, std::int64_t h) const {
    return query_at(s, b, h) * static_cast<std::size_t>(D);
  }
  std::size_t o_at(std::int64_t s, std::int64_t b, std::int64_t h) const {
    return query_at(s, b, h) * static_cast<std::size_t>(value_size());
  }
  std::size_t k_at(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return key_at(t, b, h) * static_cast<std::size_t>(D);
  }
  std::size_t v_at(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return key_at(t, b, h) * static_cast<std::size_t>(value_size());
  }

  std::int64_t document_of(std::int64_t b, std::int64_t position) const {
    std::int64_t document = 0;
    const auto starts = static_cast<std::int64_t>(documents.size()) / B;
    for (std::int64_t i = b * starts; i < (b + 1) * starts; ++i)
      document += static_cast<double>(position) >= documents[static_cast<std::size_t>(i)];
    return document;
  }
  bool sees(std::int64_t b, std::int64_t i, std::int64_t j) const {
    const std::int64_t query = q_start + i;
    const std::int64_t at = kv_start + j;
    return !(causal && at > query) && !(window > 0 && query - at >= window) &&
           document_of(b, query) == document_of(b, at) &&
           (chunk == 0 || chunk_of(b, query) == chunk_of(b, at));
  }
  /// Counted from the first position of its document.
  std::int64_t chunk_of(std::int64_t b, std::int64_t position) const {
    std::int64_t begin = 0;
    const auto starts = static_cast<std::int64_t>(documents.size()) / B;
    for (std::int64_t i = b * starts; i < (b + 1) * starts; ++i) {
      const auto start = static_cast<std::int64_t>(documents[static_cast<std::size_t>(i)]);
      if (start <= position) begin = start;
    }
    return (position - begin) / chunk;
  }
  /// What dropout multiplies the probability with.
  double kept(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (p == 0) return 1;
    const auto sample = static_cast<std::int64_t>(samples[static_cast<std::size_t>(b)]);
    const std::int64_t at = kv_start + j;
    const Philox4 words = attention_dropout_words(key, sample, head_start + h, q_start + i, at / 4);
    return words.v[at % 4] >= dropout_bound(p) ? 1 / (1 - p) : 0;
  }

 private:
  std::size_t query_at(std::int64_t s, std::int64_t b, std::int64_t h) const {
    return static_cast<std::size_t>((s * B + b) * H + h);
  }
  std::size_t key_at(std::int64_t t, std::int64_t b, std::int64_t h) const {
    return static_cast<std::size_t>((t * B + b) * K + h / (H / K));
  }
};

namespace reference {

struct AttentionInputs {
  Values q, k, v;
};
struct Attention {
  Values o, lse;
};
struct AttentionGradients {
  Values dq, dk, dv;
};

inline double dot_rows(const Values& a, std::size_t i, const Values& b, std::size_t j,
                       std::int64_t n) {
  double sum = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(n); ++c) sum += a[i + c] * b[j + c];
  return sum;
}
inline void add_row(Values& to, std::size_t i, double factor, const Values& from, std::size_t j,
                    std::int64_t n) {
  for (std::size_t c = 0; c < static_cast<std::size_t>(n); ++c) to[i + c] += factor * from[j + c];
}

/// The probabilities of one query before dropout; returns their log-sum-exp.
inline double probabilities(Values& row, const AttentionCase& c, const AttentionInputs& x,
                            std::int64_t b, std::int64_t h, std::int64_t i) {
  double maximum = -std::numeric_limits<double>::infinity();
  row.assign(static_cast<std::size_t>(c.T), 0);
  for (std::int64_t j = 0; j < c.T; ++j) {
    if (!c.sees(b, i, j)) continue;
    double& score = row[static_cast<std::size_t>(j)];
    score = c.scale * dot_rows(x.q, c.q_at(i, b, h), x.k, c.k_at(j, b, h), c.D);
    if (c.softcap > 0) score = c.softcap * std::tanh(score / c.softcap);
    maximum = std::max(maximum, score);
  }
  double sum = 0;
  for (std::int64_t j = 0; j < c.T; ++j) {
    double& score = row[static_cast<std::size_t>(j)];
    score = c.sees(b, i, j) ? std::exp(score - maximum) : 0;
    sum += score;
  }
  for (double& each : row) each = sum > 0 ? each / sum : 0;
  return maximum + std::log(sum);
}

/// The derivative of the soft cap at a score.
inline double cap_slope(const AttentionCase& c, const AttentionInputs& x, std::int64_t b,
                        std::int64_t h, std::int64_t i, std::int64_t j) {
  if (c.softcap == 0) return 1;
  const double score = c.scale * dot_rows(x.q, c.q_at(i, b, h), x.k, c.k_at(j, b, h), c.D);
  const double cosine = std::cosh(score / c.softcap);
  return 1 / (cosine * cosine);
}

template <class F>
void for_each_query(const AttentionCase& c, F&& f) {
  for (std::int64_t b = 0; b < c.B; ++b)
    for (std::int64_t h = 0; h < c.H; ++h)
      for (std::int64_t i = 0; i < c.S; ++i) f(b, h, i);
}

inline Attention attention(const AttentionCase& c, const AttentionInputs& x) {
  Attention result{Values(static_cast<std::size_t>(c.o_shape().numel())), {}};
  Values row;
  for_each_query(c, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    result.lse.push_back(probabilities(row, c, x, b, h, i));
    for (std::int64_t j = 0; j < c.T; ++j)
      add_row(result.o, c.o_at(i, b, h), row[static_cast<std::size_t>(j)] * c.kept(b, h, i, j), x.v,
              c.v_at(j, b, h), c.value_size());
  });
  return result;
}

inline AttentionGradients attention_backward(const AttentionCase& c, const AttentionInputs& x,
                                             const Values& d_o) {
  AttentionGradients g{Values(x.q.size()), Values(x.k.size()), Values(x.v.size())};
  Values row;
  for_each_query(c, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    probabilities(row, c, x, b, h, i);
    const std::size_t at_q = c.q_at(i, b, h);
    const std::size_t at_o = c.o_at(i, b, h);
    Values d_row(row.size());
    double mean = 0;  // of d_row under the probabilities
    for (std::int64_t j = 0; j < c.T; ++j) {
      const auto n = static_cast<std::size_t>(j);
      const double kept = c.kept(b, h, i, j);
      add_row(g.dv, c.v_at(j, b, h), row[n] * kept, d_o, at_o, c.value_size());
      d_row[n] = kept * dot_rows(d_o, at_o, x.v, c.v_at(j, b, h), c.value_size());
      mean += row[n] * d_row[n];
    }
    for (std::int64_t j = 0; j < c.T; ++j) {
      const auto n = static_cast<std::size_t>(j);
      const double d_score = c.scale * row[n] * (d_row[n] - mean) * cap_slope(c, x, b, h, i, j);
      add_row(g.dq, at_q, d_score, x.k, c.k_at(j, b, h), c.D);
      add_row(g.dk, c.k_at(j, b, h), d_score, x.q, at_q, c.D);
    }
  });
  return g;
}

}  // namespace reference
}  // namespace tessera::test
