// Ranks that work alone, on files, longer than ranks wait for each other in calls: the others wait.
#include <gtest/gtest.h>

#include <thread>

#include "tessera/comm/local.h"
#include "tests/support/forwarding_communicator.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kLimit{2};

// A rank that comes late to every barrier, as if it had worked alone before.
class Latecomer final : public test::ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  void barrier() override {
    come_late();
    inner_->barrier();
  }
  void barrier_without_timeout() override {
    come_late();
    inner_->barrier_without_timeout();
  }

 private:
  static void come_late() { std::this_thread::sleep_for(kLimit + std::chrono::milliseconds(300)); }
};

// What the ranks threw: two of them train for a step and save, and one is late.
std::string error_of_training(const Options& options, int late) {
  LocalWorld world(2, kLimit);
  std::string errors[2];
  const auto run = [&](int r) {
    try {
      std::shared_ptr<Communicator> mine = world.communicator(r);
      if (r == late) mine = std::make_shared<Latecomer>(std::move(mine));
      Trainer trainer(options, print_config(options), {r, 2, 1, std::move(mine)});
      trainer.run();
    } catch (const std::exception& error) {
      errors[r] = error.what();
      world.abort(error.what());
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  return errors[1 - late] + errors[late];
}

TEST(Patience, OthersWaitForARankThatWorksAlone) {
  for (const int late : {0, 1}) {
    SCOPED_TRACE(late);
    const test::TempFolder temp;
    Options options = test::run_options(temp / "run");
    options.parallel.tensor = options.parallel.nproc = 2;
    options.train.train_iters = 1;
    EXPECT_EQ(error_of_training(options, late), "");
    EXPECT_TRUE(fs::exists(temp / "run" / "iter_0000001"));
  }
}

}  // namespace
}  // namespace tessera
