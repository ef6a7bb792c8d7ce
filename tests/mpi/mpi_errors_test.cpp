// Ranks that disagree: all report what each did, nobody hangs, and the group is good afterwards.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/mpi/world.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera::test {
namespace {

class MpiErrors : public testing::Test {
 protected:
  bool last() const { return all->rank() == all->size() - 1; }
  std::string name_of_last() const { return "rank " + std::to_string(all->size() - 1); }
  std::string names_of_others() const {
    std::string names = all->size() == 2 ? "rank 0" : "ranks 0";
    for (int r = 1; r + 1 < all->size(); ++r) names += ", " + std::to_string(r);
    return names;
  }

  Tensor zeros(std::int64_t count, DType dtype = DType::f32) { return lab.full(dtype, {count}, 0); }

  // Every rank sees an error that names the ranks and what they called.
  void expect_mismatch(const std::function<void()>& others_call, const char* others_text,
                       const std::function<void()>& last_calls, const char* last_text) {
    SCOPED_TRACE(last_text);
    const std::string call = all->size() == 2 ? " calls " : " call ";
    expect_error(
        last() ? last_calls : others_call,
        {"ranks disagree in a collective: ", (names_of_others() + call + others_text).c_str(),
         (name_of_last() + " calls " + last_text).c_str()});
    const Tensor x = lab.full(DType::i32, {3}, 1);
    all->all_reduce(x, ReduceOp::sum, lab.stream)->wait(lab.stream);
    EXPECT_EQ(lab.read(x), Values(3, all->size()));
  }

  std::function<void()> all_reduce(std::int64_t count, DType dtype, ReduceOp op) {
    return [=, this] { all->all_reduce(zeros(count, dtype), op, lab.stream)->wait(lab.stream); };
  }

  const std::shared_ptr<Communicator> all = world()->communicator();
  Lab lab;
};

TEST_F(MpiErrors, OtherCount) {
  expect_mismatch(all_reduce(8, DType::f32, ReduceOp::sum), "all_reduce sum with f32 [8]",
                  all_reduce(9, DType::f32, ReduceOp::sum), "all_reduce sum with f32 [9]");
}

TEST_F(MpiErrors, OtherType) {
  expect_mismatch(all_reduce(8, DType::f32, ReduceOp::sum), "all_reduce sum with f32 [8]",
                  all_reduce(8, DType::bf16, ReduceOp::sum), "all_reduce sum with bf16 [8]");
}

TEST_F(MpiErrors, OtherReduction) {
  expect_mismatch(all_reduce(8, DType::f32, ReduceOp::sum), "all_reduce sum with f32 [8]",
                  all_reduce(8, DType::f32, ReduceOp::max), "all_reduce max with f32 [8]");
}

TEST_F(MpiErrors, OtherRoot) {
  const auto broadcast = [this](int root) {
    return [=, this] { all->broadcast(zeros(4), root, lab.stream)->wait(lab.stream); };
  };
  expect_mismatch(broadcast(0), "broadcast from 0 with f32 [4]", broadcast(1),
                  "broadcast from 1 with f32 [4]");
}

TEST_F(MpiErrors, OtherCall) {
  expect_mismatch(
      all_reduce(8, DType::f32, ReduceOp::avg), "all_reduce avg with f32 [8]",
      [this] { all->barrier(); }, "barrier");
  expect_mismatch([this] { all->barrier(); }, "barrier", [this] { all->split(0, 0); }, "split");
  const std::int64_t n = all->size();
  expect_mismatch(
      [=, this] { all->all_gather(zeros(n * n), zeros(n).view(), lab.stream)->wait(lab.stream); },
      "all_gather",
      [=, this] { all->all_to_all(zeros(n), zeros(n).view(), lab.stream)->wait(lab.stream); },
      "all_to_all");
}

TEST_F(MpiErrors, InAPartRanksOfTheJobAreNamed) {
  const auto backwards = all->split(0, -all->rank());
  const Tensor x = zeros(backwards->rank() == 0 ? 5 : 6);
  expect_error([&] { backwards->all_reduce(x, ReduceOp::sum, lab.stream)->wait(lab.stream); },
               {("rank 0 of a group (" + std::to_string(all->size() - 1) + " of the job)").c_str(),
                "all_reduce sum with f32 [5]", "all_reduce sum with f32 [6]"});
}

TEST_F(MpiErrors, RowsThatDoNotMeet) {
  // The last rank expects two rows of rank 0, which sends one; everything else is one row each.
  const auto n = static_cast<std::size_t>(all->size());
  std::vector<std::int64_t> in_rows(n, 1), out_rows(n, 1);
  if (last()) out_rows[0] = 2;
  const Tensor in = lab.full(DType::f32, {all->size(), 4}, 1);
  const Tensor out = lab.full(DType::f32, {all->size() + (last() ? 1 : 0), 4}, 0);
  expect_error(
      [&] {
        all->all_to_all_rows(out, out_rows, in.view(), in_rows, lab.stream)->wait(lab.stream);
      },
      {("rank 0 sends 1 rows to " + name_of_last() + ", which expects 2").c_str()});
}

// A message that does not fit is an error that names both sides; the one behind it arrives.
TEST_F(MpiErrors, MessagesThatDoNotFit) {
  const int n = all->size(), next = (all->rank() + 1) % n, before = (all->rank() + n - 1) % n;
  all->send(zeros(8).view(), next, lab.stream);
  all->send(zeros(6).view(), next, lab.stream);
  all->send(lab.full(DType::f32, {2}, 5).view(), next, lab.stream);
  const std::string sent = "rank " + std::to_string(before) + " sent f32 ";
  const std::string to = " to rank " + std::to_string(all->rank()) + ", which expects ";
  const auto receive = [&](const Tensor& x) {
    return [&, x] { all->recv(x, before, lab.stream)->wait(lab.stream); };
  };
  expect_error(receive(zeros(4)), {(sent + "[8]" + to + "f32 [4]").c_str()});
  expect_error(receive(zeros(6, DType::i32)), {(sent + "[6]" + to + "i32 [6]").c_str()});
  const Tensor good = zeros(2);
  receive(good)();
  EXPECT_EQ(lab.read(good), Values(2, 5));
}

// Nobody sends what the second call waits for, and the third is behind it.
TEST_F(MpiErrors, CallsBehindAFailedOneFailWithItsError) {
  const Tensor first = zeros(last() ? 9 : 8), second = zeros(4), third = zeros(4);
  const std::vector<WorkHandle> works{
      all->all_reduce(first, ReduceOp::sum, lab.stream),
      all->recv(second, (all->rank() + 1) % all->size(), lab.stream),
      all->all_reduce(third, ReduceOp::max, lab.stream)};
  for (const WorkHandle& work : works)
    expect_error([&] { work->wait(lab.stream); },
                 {"ranks disagree in a collective: ", "all_reduce sum with f32 [9]"});
  all->barrier();
}

// The last rank comes when the others have dropped their Works.
TEST_F(MpiErrors, AWorkThatIsDroppedIsDone) {
  const Tensor x = lab.full(DType::i32, {3}, 1);
  if (last()) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  all->all_reduce(x, ReduceOp::sum, lab.stream).reset();
  EXPECT_EQ(lab.read(x), Values(3, all->size()));
}

TEST_F(MpiErrors, WhatARankSeesAloneIsThrownByTheCall) {
  const Tensor x = zeros(8);
  expect_error([&] { all->recv(x, all->size(), lab.stream); }, {"recv: rank"});
  expect_error(
      [&] {
        all->send(x.view().reshape({4, 2}).slice(1, 0, 1), 0, lab.stream);
      },
      {"contiguous"});
  expect_error([&] { all->all_gather(x, x.view(), lab.stream); }, {"all_gather over"});
  expect_error(
      [&] {
        all->all_reduce(x.view().reshape({4, 2}).slice(1, 0, 1), ReduceOp::sum, lab.stream);
      },
      {"contiguous"});
  all->barrier();
}

TEST_F(MpiErrors, ThereIsOneWorld) {
  expect_error([] { MpiWorld second({}); }, {"one MpiWorld"});
}

}  // namespace
}  // namespace tessera::test
