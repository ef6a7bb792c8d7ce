// How long communication holds a rank up, by a group whose calls and Works take their time.
#include "tessera/comm/waiting.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "tessera/launch/launch.h"
#include "tests/comm/conformance.h"
#include "tests/support/forwarding_communicator.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCall{20}, kWait{40}, kOwnWork{80};

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

class SlowWork final : public Work {
 public:
  ~SlowWork() override {
    if (!waited_) std::this_thread::sleep_for(kWait);
  }
  void wait(Stream&) override {
    std::this_thread::sleep_for(kWait);
    waited_ = true;
  }

 private:
  bool waited_ = false;
};

class SlowCommunicator final : public test::ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  WorkHandle all_reduce(View, ReduceOp, Stream&) override {
    std::this_thread::sleep_for(kCall);
    return std::make_shared<SlowWork>();
  }
  void barrier() override { std::this_thread::sleep_for(kCall); }
  int size() const override { return 2; }  // as if somebody else were there
  std::shared_ptr<Communicator> split(int, int) override {
    return std::make_shared<SlowCommunicator>(inner_);
  }
};

class Waiting : public testing::Test {
 protected:
  // What of the time that `body` took was not counted.
  double uncounted(const std::function<void()>& body) {
    const double before = time_.seconds;
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
    return all.count() - (time_.seconds - before);
  }
  WorkHandle call(Communicator& group) { return group.all_reduce(view_, ReduceOp::sum, stream_); }

  ExposedTime time_;
  std::shared_ptr<Communicator> group_ = make_waiting_communicator(
      std::make_shared<SlowCommunicator>(make_self_communicator()), time_);
  Stream stream_{Device{}};
  double value_ = 1;
  View view_{&value_, DType::f64, {1}};
};

TEST_F(Waiting, CountsCallsAndWaitsAndNotWhatIsBetween) {
  const double own = uncounted([&] {
    const WorkHandle work = call(*group_);
    EXPECT_GE(time_.seconds, seconds(kCall));
    std::this_thread::sleep_for(kOwnWork);
    work->wait(stream_);
  });
  EXPECT_GE(time_.seconds, seconds(kCall + kWait));
  EXPECT_GE(own, seconds(kOwnWork));
}

TEST_F(Waiting, CountsNothingTwice) {
  const double own = uncounted([&] {
    group_->grouped([&] { call(*group_)->wait(stream_); });
    group_->barrier();
  });
  EXPECT_GE(time_.seconds, seconds(2 * kCall + kWait));
  EXPECT_GE(own, 0);
}

TEST_F(Waiting, CountsWorksThatAreDropped) {
  call(*group_);
  EXPECT_GE(time_.seconds, seconds(kCall + kWait));
}

TEST_F(Waiting, CountsForGroupsThatAreSplitOff) {
  const auto part = group_->split(0, 0);
  EXPECT_EQ(time_.seconds, 0);
  call(*part)->wait(stream_);
  EXPECT_GE(time_.seconds, seconds(kCall + kWait));
}

// On one rank there is nobody to wait for, and nothing to measure.
TEST_F(Waiting, LeavesGroupsOfOneAlone) {
  const auto self = make_self_communicator();
  const auto part = make_waiting_communicator(self, time_)->split(0, 0);
  part->barrier();
  call(*part)->wait(stream_);
  EXPECT_EQ(time_.seconds, 0);
}

TEST(WaitingRanks, WhoComesFirstWaits) {
  constexpr milliseconds kLate{300};
  run_ranks(2, 1, [&](Rank& rank) {
    ExposedTime time;
    const auto group = make_waiting_communicator(rank.world, time);
    rank.world->barrier();
    if (rank.rank == 1) std::this_thread::sleep_for(kLate);
    group->barrier();
    // On a busy machine rank 0 may come a little late, too.
    if (rank.rank == 0) {
      EXPECT_GE(time.seconds, seconds(kLate) / 3);
    }
  });
}

TEST(WaitingRanks, DoWhatEveryGroupDoes) {
  run_ranks(3, 1, [](Rank& rank) {
    ExposedTime time;
    const auto group = make_waiting_communicator(rank.world, time);
    test::Conformance(*group, {}, DType::f32).expect_everything();
    EXPECT_GT(time.seconds, 0);
  });
}

}  // namespace
}  // namespace tessera
