// A norm whose channels are spread over ranks, with all ranks played by one.
#pragma once

#include <vector>

#include "tests/support/tensors.h"

namespace tessera::test {

class NormParts {
 public:
  struct Forward {
    Values y, stats;
  };
  struct Gradients {
    Values dx, dw, db;
  };

  /// `apart`: rows have memory between them.
  NormParts(Lab& lab, DType dtype, const NormSpec& spec, std::int64_t ranks, bool apart = false)
      : lab_(lab),
        dtype_(dtype),
        acc_(accumulator_type(dtype)),
        spec_(spec),
        ranks_(ranks),
        apart_(apart) {}

  /// Of whole rows x [N, C]; b may be empty.
  Forward forward(const Values& x, const Values& w, const Values& b) {
    const auto channels = static_cast<std::int64_t>(w.size());
    rows_ = static_cast<std::int64_t>(x.size()) / channels;
    width_ = channels / ranks_;
    const Tensor parts = lab_.full(acc_, {ranks_, rows_, 2}, -55);
    for (std::int64_t r = 0; r < ranks_; ++r)
      lab_->norm_part_stats(lab_.stream, parts.view().slice(0, r, 1).reshape({rows_, 2}),
                            matrix(x, r).view, spec_);
    Values y(x.size());
    stats_ = lab_.full(acc_, {rows_, 2}, -55);
    for (std::int64_t r = 0; r < ranks_; ++r) {
      const Padded part = unset();
      const Tensor bias = b.empty() ? Tensor() : vector(b, r);
      lab_->norm_part_forward(lab_.stream, part, stats_, matrix(x, r).view, parts.view(),
                              vector(w, r), bias ? bias.view() : View(), spec_);
      put(y, part, r, width_ * ranks_);
    }
    return {y, lab_.read(stats_)};
  }

  /// Of the rows that went forward last; added to `before`, if that is given.
  Gradients backward(const Values& dy, const Values& x, const Values& w,
                     const Gradients& before = {}) {
    const bool add = !before.dx.empty();
    const std::int64_t channels = width_ * ranks_;
    Gradients got{Values(x.size()), Values(w.size()), Values(w.size())};
    Values sums(static_cast<std::size_t>(2 * rows_));
    const Tensor workspace = lab_.workspace(lab_->norm_workspace_bytes(rows_, width_, dtype_));
    for (std::int64_t r = 0; r < ranks_; ++r) {
      const Tensor dw = add ? vector(before.dw, r, acc_) : lab_.full(acc_, {width_}, -55);
      const Tensor db = add ? vector(before.db, r, acc_) : lab_.full(acc_, {width_}, -55);
      const Tensor mine = lab_.full(acc_, {rows_, 2}, -55);
      lab_->norm_part_sums(lab_.stream, mine, dw, db, matrix(dy, r).view, matrix(x, r).view,
                           stats_.view(), vector(w, r), spec_, add, workspace);
      const Values part = lab_.read(mine);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
      put(got.dw, dw, r, channels);
      put(got.db, db, r, channels);
    }
    const Tensor all = lab_.tensor(acc_, {rows_, 2}, sums);
    for (std::int64_t r = 0; r < ranks_; ++r) {
      const Padded dx = add ? matrix(before.dx, r) : unset();
      lab_->norm_part_backward(lab_.stream, dx, matrix(dy, r).view, matrix(x, r).view,
                               stats_.view(), all.view(), vector(w, r), channels, spec_, add);
      put(got.dx, dx, r, channels);
    }
    return got;
  }

 private:
  // Rank r's columns of whole rows.
  Values columns(const Values& x, std::int64_t r) const {
    Values part;
    const auto channels = static_cast<std::size_t>(width_ * ranks_);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (static_cast<std::int64_t>(i % channels) / width_ == r) part.push_back(x[i]);
    return part;
  }
  Padded matrix(const Values& x, std::int64_t r) {
    return lab_.padded(dtype_, {rows_, width_}, columns(x, r), apart_);
  }
  Padded unset() {
    return lab_.padded(dtype_, {rows_, width_},
                       Values(static_cast<std::size_t>(rows_ * width_), -55), apart_);
  }
  Tensor vector(const Values& x, std::int64_t r) { return vector(x, r, dtype_); }
  Tensor vector(const Values& x, std::int64_t r, DType dtype) {
    return lab_.tensor(dtype, {width_}, columns(x, r));
  }
  void put(Values& whole, const View& part, std::int64_t r, std::int64_t channels) {
    const Values values = lab_.read(part);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto width = static_cast<std::size_t>(width_);
      whole[i / width * static_cast<std::size_t>(channels) + static_cast<std::size_t>(r) * width +
            i % width] = values[i];
    }
  }

  Lab& lab_;
  DType dtype_, acc_;
  NormSpec spec_;
  std::int64_t ranks_;
  bool apart_;
  std::int64_t rows_ = 0;
  std::int64_t width_ = 0;
  Tensor stats_;
};

}  // namespace tessera::test
