// Runs the tests on every rank of an MPI job: mpirun -n 3 test_mpi. Rank 0 reports as usual, the
// others only what fails.
#include <gtest/gtest.h>

#include <cstdio>

#include "tessera/base/check.h"
#include "tests/mpi/world.h"

namespace {

class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  // NOLINTBEGIN(readability-identifier-naming)
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s: %s:%d: %s\n", rank_, test_.c_str(),
                 result.file_name() ? result.file_name() : "?", result.line_number(),
                 result.message());
  }
  // NOLINTEND(readability-identifier-naming)

 private:
  int rank_;
  std::string test_;
};

// What a communicator does after the end of its world.
bool refuses(tessera::Communicator& group) {
  try {
    group.barrier();
  } catch (const tessera::Error&) {
    return true;
  }
  std::fprintf(stderr, "a communicator works after the end of its world\n");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  testing::InitGoogleTest(&argc, argv);
  tessera::test::world() =
      std::make_unique<tessera::MpiWorld>(tessera::MpiWorld::Options{20s, 15s});
  const int rank = tessera::test::world()->rank();
  if (rank != 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));  // gtest owns it
  }
  const int result = RUN_ALL_TESTS();
  const auto kept = tessera::test::world()->communicator();
  tessera::test::world().reset();
  return result + (refuses(*kept) ? 0 : 1);
}
