// Ranks as processes, seen from outside: exit codes, and what the user reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tessera/launch/cores.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

using test::ProgramResult;

// Runs a command line in a folder of its own, with a time limit: a test must not hang. Open MPI
// never frees some of its memory, which a build with the address sanitizer would complain of.
ProgramResult run(const std::string& command) {
  const test::TempFolder folder;
  return test::run_program(
      "/usr/bin/timeout", {"60", "/bin/sh", "-c", "export ASAN_OPTIONS=detect_leaks=0; " + command},
      folder.path());
}

const std::string kProbe = TESSERA_LAUNCH_PROBE;
// mpirun as a user calls it, who may be root here.
const std::string kMpirun =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -q --oversubscribe ";

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "lacks '" << part << "': " << text;
}

TEST(Processes, AreStartedAndCommunicate) {
  const ProgramResult result = run(kProbe + " 3 processes sum");
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(
      sorted_lines(result.out),
      (std::vector<std::string>{"rank 0 of 3 has 6", "rank 1 of 3 has 6", "rank 2 of 3 has 6"}));
}

TEST(Processes, OfAUsersOwnMpirun) {
  const ProgramResult result = run(kMpirun + "-n 2 " + kProbe + " 1 threads sum");
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(sorted_lines(result.out),
            (std::vector<std::string>{"rank 0 of 2 has 3", "rank 1 of 2 has 3"}));
}

TEST(Processes, ShareTheCores) {
  const int cores = Cores().count();
  if (cores < 2) GTEST_SKIP() << "one core cannot be shared out";
  const ProgramResult result = run(kProbe + " 2 processes cores");
  const std::vector<std::string> lines = sorted_lines(result.out);
  ASSERT_EQ(lines.size(), 2u) << result.error;
  EXPECT_NE(lines[0], lines[1]) << "both ranks run on the same cores";
  const ProgramResult threads = run(kProbe + " 2 processes threads");
  EXPECT_EQ(count(threads.out, fmt::format("threads {}\n", cores / 2)), 2) << threads.out;
}

// A launcher that ties ranks to cores has dealt them out: each rank uses all that it was given.
TEST(Processes, KeepTheCoresThatMpirunGaveThem) {
  if (Cores().count() < 2) GTEST_SKIP() << "one core cannot be shared out";
  const ProgramResult result =
      run(kMpirun + "--bind-to core -n 2 " + kProbe + " 1 threads threads");
  EXPECT_EQ(count(result.out, "threads 1\n"), 2) << result.out << result.error;
}

TEST(Processes, AFailureIsSaidOnceAndIsTheExitCode) {
  for (const auto& [what, text, code] : {std::tuple("input-error 1", "rank 1: a bad flag", 2),
                                         std::tuple("error 2", "rank 2: disk on fire", 1),
                                         std::tuple("input-error", ": a bad flag", 2)}) {
    const ProgramResult result = run(fmt::format("{} 3 processes {}", kProbe, what));
    EXPECT_EQ(result.exit_code, code) << result.error;
    EXPECT_EQ(count(result.error, text), 1) << result.error;
    EXPECT_EQ(sorted_lines(result.error).size(), 1u) << result.error;
    expect_has(result.error, "rank ");
  }
}

TEST(Processes, AFailureBeforeTheStartIsSaidOnceToo) {
  const ProgramResult result = run(kMpirun + "-n 3 " + kProbe + " 1 threads early-error");
  EXPECT_EQ(result.exit_code, 2) << result.error;
  EXPECT_EQ(result.error, "tessera: rank 0: a bad file\n");
}

TEST(Processes, ARankThatIsKilledIsMentioned) {
  const ProgramResult result = run(kProbe + " 2 processes signal 1");
  EXPECT_EQ(result.exit_code, 128 + 9) << result.error;
  expect_has(result.error, "tessera: rank 1 was ended by signal 9");
}

TEST(Processes, DifferentConfigurationsAreFound) {
  const ProgramResult result = run(kProbe + " 3 processes configuration 2");
  EXPECT_EQ(result.exit_code, 2) << result.error;
  expect_has(result.error, "rank 2 and rank 0 differ");
  expect_has(result.error, "line 2: 'own: false' on rank 0, 'own: true' on rank 2");
  EXPECT_EQ(sorted_lines(result.error).size(), 1u) << result.error;
}

// A copy of the probe that calls its contents something else, as any change of it would.
void write_other_build(const fs::path& file) {
  std::string bytes = read_text_file(kProbe);
  // The sizes of name and contents, the kind, and the name of the linker's note.
  const std::string note("\4\0\0\0\24\0\0\0\3\0\0\0GNU\0", 16);
  const std::size_t at = bytes.find(note);
  ASSERT_NE(at, std::string::npos);
  bytes[at + note.size()] = static_cast<char>(bytes[at + note.size()] ^ 1);
  write_file_atomically(file, bytes);
  fs::permissions(file, fs::perms::owner_all);
}

TEST(Processes, DifferentBuildsAreFound) {
  const test::TempFolder folder;
  const fs::path other = folder / "launch_probe";
  write_other_build(other);
  const std::string arguments = " 1 threads sum";
  const ProgramResult result =
      run(kMpirun + "-n 2 " + kProbe + arguments + " : -n 1 " + other.string() + arguments);
  EXPECT_EQ(result.exit_code, 2) << result.error;
  expect_has(result.error, "the same build: rank 2 and rank 0 differ");
  expect_has(result.error, "'program ");
}

TEST(Processes, ANumberThatIsNotMpirunsIsRefused) {
  const ProgramResult result = run(kMpirun + "-n 2 " + kProbe + " 3 threads sum");
  EXPECT_EQ(result.exit_code, 2) << result.error;
  EXPECT_EQ(count(result.error, "--nproc 3, but mpirun started 2 ranks"), 1) << result.error;
}

TEST(Processes, TorchrunOnCpusIsRefused) {
  const ProgramResult result =
      run("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=localhost MASTER_PORT=29500 "
          "TORCHELASTIC_ERROR_FILE=error.json " +
          kProbe + " 1 threads sum; code=$?; cat error.json; exit $code");
  EXPECT_EQ(result.exit_code, 2) << result.error;
  EXPECT_EQ(result.error.find("tessera: rank 1: torchrun started 2 ranks"), 0u) << result.error;
  expect_has(result.out, "rank 1: torchrun started 2 ranks");
}

TEST(Processes, WithoutMpirunThePackageIsNamed) {
  const ProgramResult result = run("PATH=/nowhere " + kProbe + " 2 processes sum");
  EXPECT_EQ(result.exit_code, 2);
  expect_has(result.error, "openmpi-bin");
}

// An mpirun that stands in for the true one.
ProgramResult run_with_fake_mpirun(const std::string& script, const std::string& command) {
  const test::TempFolder folder;
  const fs::path fake = folder / "mpirun";
  std::ofstream(fake) << "#!/bin/sh\n" << script << "\n";
  fs::permissions(fake, fs::perms::owner_all);
  return run("PATH=" + folder.path().string() + ":$PATH; " + command);
}

TEST(Processes, MpirunsExitCodeIsOurs) {
  const ProgramResult result =
      run_with_fake_mpirun("echo \"$@\"; exit 42", kProbe + " 2 processes sum");
  EXPECT_EQ(result.exit_code, 42);
  expect_has(result.out, "-n 2");
  expect_has(result.out, kProbe + " 2 processes sum\n");
}

TEST(Processes, SignalsReachMpirun) {
  const ProgramResult result = run_with_fake_mpirun(
      "trap 'echo told to end; exit 7' TERM; echo ready >ready; sleep 20 & wait",
      kProbe +
          " 2 processes sum & pid=$!; until [ -e ready ]; do sleep 0.05; done; "
          "kill -TERM $pid; wait $pid");
  EXPECT_EQ(result.exit_code, 7) << result.error;
  EXPECT_EQ(result.out, "told to end\n");
}

}  // namespace
}  // namespace tessera
