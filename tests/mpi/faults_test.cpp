// Jobs in which a rank dies, stops, ends or comes late: mpirun returns, with an exit code and a
// message that names the rank, and leaves no process behind. A job that hangs runs into the limit
// of the test.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "tessera/comm/mpi.h"
#include "tests/support/run_program.h"

namespace tessera::test {
namespace {

using namespace std::chrono_literals;

bool all_gone(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes)
    if (::kill(process, 0) == 0) return false;
  return true;
}

// The "pid N" lines.
std::vector<pid_t> processes_of(const std::string& out) {
  std::vector<pid_t> processes;
  std::istringstream lines(out);
  for (std::string word; lines >> word;)
    if (pid_t process = 0; word == "pid" && lines >> process) processes.push_back(process);
  return processes;
}

ProgramResult run_job(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {
      "--allow-run-as-root", "--oversubscribe",   "--bind-to", "none", "-n",
      std::to_string(ranks), TESSERA_FAULTY_RANKS};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const TempFolder folder;
  ProgramResult result = run_program(TESSERA_MPIRUN, all, folder.path());
  const std::vector<pid_t> processes = processes_of(result.out);
  EXPECT_EQ(processes.size(), static_cast<std::size_t>(ranks)) << result.out << result.error;
  // mpirun may return a moment before they do. One that stays is found by the limit of the test.
  while (!all_gone(processes)) std::this_thread::sleep_for(100ms);
  return result;
}

void expect_said(const ProgramResult& result, const std::string& text) {
  EXPECT_NE(result.error.find(text), std::string::npos)
      << "standard error lacks '" << text << "':\n"
      << result.error;
}

void expect_fine(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.error.find("rank"), std::string::npos) << result.error;
}

TEST(MpiFaults, NoneIsFine) { expect_fine(run_job(3, {"none"})); }

TEST(MpiFaults, AKilledRankIsNamed) {
  const ProgramResult result = run_job(3, {"kill"});
  EXPECT_NE(result.exit_code, 0);
  expect_said(result, "process rank 1");  // mpirun's words
}

TEST(MpiFaults, AStoppedRankIsNamed) {
  const ProgramResult result = run_job(3, {"stop", "2"});
  EXPECT_EQ(result.exit_code, 1);
  expect_said(result, "rank 2: rank 1 has not been heard of for 2 s: it may have died or been");
  EXPECT_LE(MpiWorld::Options{}.silence_limit, 20s) << "so that a job ends within 30 s";
}

TEST(MpiFaults, ALateRankIsNamed) {
  const ProgramResult result = run_job(3, {"late"});
  EXPECT_EQ(result.exit_code, 3);
  expect_said(result, "rank 1 did not come to all_reduce sum with f32 [1000] within 1 s");
}

TEST(MpiFaults, ARankThatEndsEarlyIsNamed) {
  const ProgramResult result = run_job(3, {"quit"});
  EXPECT_EQ(result.exit_code, 3);
  expect_said(result, "rank 1 did not come to all_reduce sum with f32 [1000]: the program ended");
}

TEST(MpiFaults, ARankThatDoesNotEndIsNamed) {
  const ProgramResult result = run_job(3, {"endless"});
  EXPECT_EQ(result.exit_code, 1);
  expect_said(result, "rank(s) 1 did not end the program within 1 s");
}

TEST(MpiFaults, AbortEndsTheJob) {
  const ProgramResult result = run_job(3, {"abort"});
  EXPECT_EQ(result.exit_code, 5);
  expect_said(result, "rank 1: disk on fire\n");
  const std::size_t first = result.error.find("disk on fire");
  EXPECT_EQ(result.error.find("disk on fire", first + 1), std::string::npos) << result.error;
}

// The rank holds a call that would wait for ten minutes.
TEST(MpiFaults, AnErrorDoesNotWaitForCallsUnderWay) {
  const ProgramResult result = run_job(3, {"fail-in-call"});
  EXPECT_EQ(result.exit_code, 3);
  expect_said(result, "rank 1: no more memory");
}

// The time limit of calls is 1 s, and rank 1 needs 3.
TEST(MpiFaults, ABarrierWithoutTimeoutWaitsForARankThatLives) {
  expect_fine(run_job(3, {"patient"}));
}

TEST(MpiFaults, ABarrierWithoutTimeoutDoesNotWaitForARankThatIsStopped) {
  const ProgramResult result = run_job(3, {"patient-stop", "2"});
  EXPECT_EQ(result.exit_code, 1);
  expect_said(result, "rank 2: rank 1 has not been heard of for 2 s");
}

TEST(MpiFaults, ABarrierWithoutTimeoutDoesNotWaitForARankThatHasEnded) {
  const ProgramResult result = run_job(3, {"patient-quit"});
  EXPECT_EQ(result.exit_code, 3);
  expect_said(result, "rank 1 did not come to barrier_without_timeout: the program ended there");
}

// Ranks that compute, even if they are more than the cores, are heard of.
TEST(MpiFaults, BusyRanksAreNotMissed) { expect_fine(run_job(8, {"busy", "3"})); }

TEST(MpiFaults, WhatNobodyReceivesIsReportedAtTheEnd) {
  const ProgramResult result = run_job(2, {"unreceived"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  expect_said(result, "rank 1 sent 4000000 bytes to rank 0, which never received them");
}

}  // namespace
}  // namespace tessera::test
