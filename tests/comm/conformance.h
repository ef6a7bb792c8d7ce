// What every communicator must do, whatever carries it: one suite, run by each rank of a group.
// Values are small whole numbers, which every type holds exactly.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tests/support/tensors.h"
#include "tests/support/values.h"

namespace tessera::test {

/// What a communicator is allowed to leave out.
struct Leeway {
  bool no_sums_of_i16 = false;     ///< moves 16-bit integers, but does not reduce them
  bool sends_need_groups = false;  ///< does not buffer what is sent
};

class Conformance {
 public:
  Conformance(Communicator& group, Device device, DType dtype, Leeway leeway = {})
      : group_(group),
        n_(group.size()),
        me_(group.rank()),
        dtype_(dtype),
        leeway_(leeway),
        lab_(device) {}

  void expect_everything() {
    for (const std::int64_t count : {0, 1, 5, 1000}) {
      SCOPED_TRACE("elements " + std::to_string(count));
      if (reduces()) expect_reductions(count);
      expect_gathers(count);
      if (is_float(dtype_)) expect_in_place(count);  // copied by a kernel
      expect_exchanges(count);
      expect_group(count);
      if (!leeway_.sends_need_groups) expect_neighbours(count);
    }
    expect_rows();
    expect_parts();
    group_.barrier();
  }

 private:
  // Element i of what rank r has.
  static double value(int r, std::int64_t i) {
    return static_cast<double>((3 * r + static_cast<int>(i)) % 11);
  }
  static Values values(int r, std::int64_t count, std::int64_t first = 0) {
    Values all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(value(r, first + i));
    return all;
  }
  Values sums(std::int64_t count, std::int64_t first = 0) const {
    Values all(static_cast<std::size_t>(count), 0);
    for (int r = 0; r < n_; ++r)
      for (std::int64_t i = 0; i < count; ++i)
        all[static_cast<std::size_t>(i)] += value(r, first + i);
    return all;
  }
  Values largest(std::int64_t count, std::int64_t first = 0) const {
    Values all(static_cast<std::size_t>(count), 0);
    for (int r = 0; r < n_; ++r)
      for (std::int64_t i = 0; i < count; ++i)
        all[static_cast<std::size_t>(i)] =
            std::max(all[static_cast<std::size_t>(i)], value(r, first + i));
    return all;
  }
  bool reduces() const { return dtype_ != DType::i16 || !leeway_.no_sums_of_i16; }
  Tensor mine(std::int64_t count) { return lab_.tensor(dtype_, {count}, values(me_, count)); }
  void wait(const WorkHandle& work) { work->wait(lab_.stream); }

  void expect_reductions(std::int64_t count) {
    const Tensor sum = mine(count), most = mine(count), mean = mine(count);
    wait(group_.all_reduce(sum, ReduceOp::sum, lab_.stream));
    EXPECT_EQ(lab_.read(sum), sums(count));
    wait(group_.all_reduce(most, ReduceOp::max, lab_.stream));
    EXPECT_EQ(lab_.read(most), largest(count));
    if (is_float(dtype_)) {
      wait(group_.all_reduce(mean, ReduceOp::avg, lab_.stream));
      Values expected = sums(count);
      for (double& each : expected) each /= n_;
      EXPECT_LE(relative_error(lab_.read(mean), expected), 4e-3);
    }
    const Tensor whole = mine(n_ * count), part = lab_.full(dtype_, {count}, 99);
    wait(group_.reduce_scatter(part, whole.view(), ReduceOp::sum, lab_.stream));
    EXPECT_EQ(lab_.read(part), sums(count, me_ * count));
    wait(group_.reduce_scatter(part, whole.view(), ReduceOp::max, lab_.stream));
    EXPECT_EQ(lab_.read(part), largest(count, me_ * count));
    EXPECT_EQ(lab_.read(whole), values(me_, n_ * count)) << "the input stays";
  }

  // This rank's part of the whole is where the other view lies.
  void expect_in_place(std::int64_t count) {
    const auto part_of = [&](const Tensor& whole) {
      return whole.view().slice(0, me_, 1).reshape({count});
    };
    const Tensor all = lab_.tensor(dtype_, {n_, count}, Values(n_ * count, 99));
    lab_->copy(lab_.stream, part_of(all), mine(count));
    wait(group_.all_gather(all, part_of(all), lab_.stream));
    Values expected;
    for (int r = 0; r < n_; ++r) append(expected, values(r, count));
    EXPECT_EQ(lab_.read(all), expected);
    if (!reduces()) return;
    const Tensor whole = lab_.tensor(dtype_, {n_, count}, values(me_, n_ * count));
    wait(group_.reduce_scatter(part_of(whole), whole.view(), ReduceOp::sum, lab_.stream));
    EXPECT_EQ(lab_.read(part_of(whole)), sums(count, me_ * count));
  }

  void expect_gathers(std::int64_t count) {
    const Tensor all = lab_.full(dtype_, {n_, count}, 99);
    wait(group_.all_gather(all, mine(count).view(), lab_.stream));
    Values expected;
    for (int r = 0; r < n_; ++r) append(expected, values(r, count));
    EXPECT_EQ(lab_.read(all), expected);
    for (int root = 0; root < n_; ++root) {
      const Tensor x = mine(count);
      wait(group_.broadcast(x, root, lab_.stream));
      EXPECT_EQ(lab_.read(x), values(root, count));
    }
  }

  void expect_exchanges(std::int64_t count) {
    const Tensor out = lab_.full(dtype_, {n_, count}, 99);
    wait(group_.all_to_all(out, mine(n_ * count).view().reshape({n_, count}), lab_.stream));
    Values expected;
    for (int r = 0; r < n_; ++r) append(expected, values(r, count, me_ * count));
    EXPECT_EQ(lab_.read(out), expected);
  }

  // Rank r sends (r + 2 q) % 4 rows of three to rank q: none, one, or several.
  void expect_rows() {
    const auto rows = [](int from, int to) { return std::int64_t{(from + 2 * to) % 4}; };
    std::vector<std::int64_t> in_rows, out_rows;
    Values expected;
    for (int r = 0; r < n_; ++r) {
      in_rows.push_back(rows(me_, r));
      out_rows.push_back(rows(r, me_));
      std::int64_t before = 0;
      for (int q = 0; q < me_; ++q) before += rows(r, q);
      append(expected, values(r, 3 * rows(r, me_), 3 * before));
    }
    const auto total = [](const auto& all) {
      return std::accumulate(all.begin(), all.end(), std::int64_t{0});
    };
    const Tensor in = lab_.tensor(dtype_, {total(in_rows), 3}, values(me_, 3 * total(in_rows)));
    const Tensor out = lab_.full(dtype_, {total(out_rows), 3}, 99);
    wait(group_.all_to_all_rows(out, out_rows, in.view(), in_rows, lab_.stream));
    EXPECT_EQ(lab_.read(out), expected);
  }

  // Two messages each way between neighbours, which go off together and arrive in order.
  void expect_group(std::int64_t count) {
    if (n_ == 1) return;
    const int next = (me_ + 1) % n_, before = (me_ + n_ - 1) % n_;
    const Tensor first = mine(count), second = lab_.full(dtype_, {count}, 5 + me_);
    const Tensor got_first = lab_.full(dtype_, {count}, 99);
    const Tensor got_second = lab_.full(dtype_, {count}, 99);
    std::vector<WorkHandle> works;
    group_.grouped([&] {
      works.push_back(group_.send(first.view(), next, lab_.stream));
      works.push_back(group_.send(second.view(), next, lab_.stream));
      works.push_back(group_.recv(got_first, before, lab_.stream));
      works.push_back(group_.recv(got_second, before, lab_.stream));
    });
    for (const WorkHandle& work : works) wait(work);
    EXPECT_EQ(lab_.read(got_first), values(before, count));
    EXPECT_EQ(lab_.read(got_second), Values(static_cast<std::size_t>(count), 5 + before));
  }

  // All send before anybody receives, twice, so order counts.
  void expect_neighbours(std::int64_t count) {
    if (n_ == 1) return;
    const int next = (me_ + 1) % n_, before = (me_ + n_ - 1) % n_;
    const Tensor first = mine(count), second = lab_.full(dtype_, {count}, 5);
    const WorkHandle sent_first = group_.send(first.view(), next, lab_.stream);
    const WorkHandle sent_second = group_.send(second.view(), next, lab_.stream);
    const Tensor got = lab_.full(dtype_, {count}, 99);
    wait(group_.recv(got, before, lab_.stream));
    EXPECT_EQ(lab_.read(got), values(before, count));
    wait(group_.recv(got, before, lab_.stream));
    EXPECT_EQ(lab_.read(got), Values(static_cast<std::size_t>(count), 5));
    wait(sent_first);
    wait(sent_second);
  }

  // Odd and even ranks, in reverse order, several times.
  void expect_parts() {
    for (int again = 0; again < 3; ++again) {
      const std::shared_ptr<Communicator> part = group_.split(me_ % 2, -me_);
      ASSERT_EQ(part->size(), (n_ + 1 - me_ % 2) / 2);
      EXPECT_EQ(part->rank(), (n_ - 1 - me_) / 2);
      if (!reduces()) continue;
      const Tensor x = mine(5);
      wait(part->all_reduce(x, ReduceOp::sum, lab_.stream));
      Values expected(5, 0);
      for (int r = me_ % 2; r < n_; r += 2)
        for (std::size_t i = 0; i < 5; ++i) expected[i] += value(r, static_cast<std::int64_t>(i));
      EXPECT_EQ(lab_.read(x), expected);
    }
  }

  static void append(Values& to, const Values& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  Communicator& group_;
  int n_, me_;
  DType dtype_;
  Leeway leeway_;
  Lab lab_;
};

}  // namespace tessera::test
