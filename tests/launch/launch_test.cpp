// How ranks come to be: what is chosen, what a rank is given, what becomes of a failure.
#include "tessera/launch/launch.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "tessera/launch/cores.h"
#include "tessera/launch/failure.h"
#include "tessera/launch/mpirun.h"
#include "tessera/launch/process_ranks.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

Environment started_by(Launcher launcher, int size) {
  Environment environment;
  environment.launcher = launcher;
  environment.size = size;
  environment.local_size = size;
  return environment;
}

LaunchOptions ranks(int nproc, bool processes = false) {
  LaunchOptions options;
  options.nproc = nproc;
  options.processes = processes;
  return options;
}

TEST(Launch, ChoosesAWay) {
  const Environment alone;
  EXPECT_EQ(choose_way(ranks(1), alone), LaunchWay::alone);
  EXPECT_EQ(choose_way(ranks(1, true), alone), LaunchWay::alone);
  EXPECT_EQ(choose_way(ranks(4), alone), LaunchWay::threads);
  EXPECT_EQ(choose_way(ranks(4, true), alone), LaunchWay::mpirun);
  for (const Launcher launcher : {Launcher::mpirun, Launcher::srun}) {
    EXPECT_EQ(choose_way(ranks(1), started_by(launcher, 4)), LaunchWay::mpi);
    // What --launch processes starts has the flags of what started it.
    EXPECT_EQ(choose_way(ranks(4, true), started_by(launcher, 4)), LaunchWay::mpi);
  }
  EXPECT_EQ(choose_way(ranks(1), started_by(Launcher::mpirun, 1)), LaunchWay::alone);
  LaunchOptions gpu;
  gpu.device = DeviceKind::cuda;
  EXPECT_EQ(choose_way(gpu, started_by(Launcher::torchrun, 4)), LaunchWay::rendezvous);
}

TEST(Launch, RefusesWhatDoesNotFit) {
  test::expect_input_error([] { choose_way(ranks(0), {}); }, {"--nproc", "0"});
  test::expect_input_error([] { choose_way(ranks(2), started_by(Launcher::mpirun, 4)); },
                           {"--nproc 2", "mpirun started 4 ranks", "drop --nproc"});
  test::expect_input_error([] { choose_way(ranks(1), started_by(Launcher::torchrun, 4)); },
                           {"torchrun started 4", "mpirun -n 4", "srun", "--nproc 4"});
}

TEST(Launch, AloneIsOneRankThatIsTiedToNothing) {
  LaunchOptions options;
  options.device = DeviceKind::cuda;
  const int cores = default_threads(1);
  int calls = 0;
  EXPECT_EQ(launch(options, {},
                   [&](Rank& rank) {
                     ++calls;
                     EXPECT_EQ(rank.rank, 0);
                     EXPECT_EQ(rank.size, 1);
                     EXPECT_EQ(rank.world->size(), 1);
                     EXPECT_EQ(rank.threads, cores);
                     EXPECT_EQ(rank.process_ranks, 1);
                     EXPECT_EQ(rank.device, (Device{DeviceKind::cuda, 0}));
                     EXPECT_EQ(default_threads(1), cores);
                   }),
            0);
  EXPECT_EQ(calls, 1);
}

TEST(Launch, AnErrorOfOneRankAloneIsItsOwn) {
  test::expect_input_error([] { launch({}, {}, [](Rank&) { fail_input("no such file"); }); },
                           {"no such file"});
}

TEST(Launch, ThreadsAreRanks) {
  LaunchOptions options = ranks(3);
  options.threads = 2;
  std::mutex mutex;
  std::set<int> seen;
  launch(options, {}, [&](Rank& rank) {
    EXPECT_EQ(rank.size, 3);
    EXPECT_EQ(rank.world->rank(), rank.rank);
    EXPECT_EQ(rank.local_rank, rank.rank);
    EXPECT_EQ(rank.process_ranks, 3);
    EXPECT_EQ(rank.threads, 2);
    rank.world->barrier();
    const std::lock_guard lock(mutex);
    seen.insert(rank.rank);
  });
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2}));
}

TEST(Launch, ThreadsHaveCoresOfTheirOwn) {
  const int cores = Cores().count();
  if (cores < 2) GTEST_SKIP() << "one core cannot be shared out";
  std::mutex mutex;
  std::set<int> taken;
  launch(ranks(cores), {}, [&](Rank& rank) {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(taken.insert(sched_getcpu()).second) << "rank " << rank.rank;
  });
  const int before = default_threads(1);
  launch(ranks(cores + 1), {}, [&](Rank&) { EXPECT_EQ(default_threads(1), before) << "too many"; });
}

TEST(Launch, TheFirstFailureIsTheOneThatIsThrown) {
  const auto fail_on_2 = [](bool input) {
    launch(ranks(4), {}, [&](Rank& rank) {
      if (rank.rank == 2 && input) fail_input("bad flag");
      if (rank.rank == 2) fail("disk on fire");
      rank.world->barrier();  // ends with "stopped, since another rank failed"
    });
  };
  try {
    fail_on_2(false);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 2: disk on fire");
    EXPECT_EQ(exit_code_of(error), 1);
  }
  try {
    fail_on_2(true);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "rank 2: bad flag");
    EXPECT_EQ(exit_code_of(error), 2);
  }
}

TEST(Launch, MpirunsCommand) {
  const std::vector<std::string> arguments{"train", "--nproc", "3", "--save", "a b"};
  const std::vector<std::string> command =
      mpirun_command("/usr/bin/mpirun", 3, true, "/opt/tessera", arguments);
  EXPECT_EQ(command.front(), "/usr/bin/mpirun");
  const auto has = [&](const char* part) {
    return std::find(command.begin(), command.end(), part) != command.end();
  };
  EXPECT_TRUE(has("--oversubscribe") && has("--allow-run-as-root") && has("none"));
  EXPECT_EQ(std::vector<std::string>(command.end() - 6, command.end()),
            (std::vector<std::string>{"/opt/tessera", "train", "--nproc", "3", "--save", "a b"}));
  const std::vector<std::string> plain =
      mpirun_command("mpirun", 3, false, "/opt/tessera", arguments);
  EXPECT_EQ(plain.size() + 1, command.size());
}

TEST(Launch, AGpuForEachRankOfAMachine) {
  const auto none = [](const char*) -> std::optional<std::string> { return std::nullopt; };
  const auto chosen = [](const char* name) -> std::optional<std::string> {
    EXPECT_STREQ(name, "CUDA_VISIBLE_DEVICES");
    return "3";
  };
  Environment environment = started_by(Launcher::mpirun, 8);
  environment.local_size = 4;
  environment.local_rank = 3;
  EXPECT_EQ(gpu_of_rank(environment, 4, none), 3);
  EXPECT_EQ(gpu_of_rank(environment, 8, none), 3);
  EXPECT_EQ(gpu_of_rank(environment, 1, chosen), 0);
  test::expect_input_error([&] { gpu_of_rank(environment, 1, none); },
                           {"mpirun started 4 ranks on this machine", "1 GPU"});
  test::expect_input_error([&] { gpu_of_rank(environment, 2, chosen); }, {"2 GPU"});
  environment.local_size = 0;  // srun does not say
  EXPECT_EQ(gpu_of_rank(environment, 2, none), 1);
}

TEST(Failure, InTorchrunsForm) {
  EXPECT_EQ(torchrun_error("rank 3: \"no\"", 1700000000),
            R"({"message":{"extraInfo":{"py_callstack":"","timestamp":"1700000000"},)"
            R"("message":"rank 3: \"no\""}})");
  EXPECT_NE(torchrun_error("\xff", 0).find("message"), std::string::npos) << "not UTF-8";
}

}  // namespace
}  // namespace tessera
