// A program that starts ranks as tessera does, for tests to look at from outside.
//
// usage: launch_probe NPROC threads|processes WHAT [RANK]
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/launch/cores.h"
#include "tessera/launch/launch.h"

namespace {

using namespace tessera;

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// Adds up 1 + rank over all ranks.
void sum(Rank& rank) {
  Stream stream{Device{}};
  double value = 1 + rank.rank;
  rank.world->all_reduce(View(&value, DType::f64, {1}), ReduceOp::sum, stream)->wait(stream);
  print_line(fmt::format("rank {} of {} has {}", rank.rank, rank.size, value));
}

void run_body(Rank& rank, const std::string& what, int on_rank) {
  const bool chosen = on_rank < 0 || rank.rank == on_rank;
  if (what == "sum") return sum(rank);
  if (what == "cores") return print_line("cores " + Cores().to_string());
  if (what == "threads") return print_line(fmt::format("threads {}", rank.threads));
  if (what == "input-error" && chosen) fail_input("a bad flag");
  if (what == "error" && chosen) fail("disk on fire");
  if (what == "signal" && chosen) ::raise(SIGKILL);
  rank.world->barrier();
}

int run(const std::vector<std::string>& args) {
  check_input(args.size() >= 3, "usage: launch_probe NPROC threads|processes WHAT [RANK]");
  const std::string& what = args[2];
  const int on_rank = args.size() > 3 ? std::stoi(args[3]) : -1;
  LaunchOptions options;
  options.nproc = std::stoi(args[0]);
  options.processes = args[1] == "processes";
  options.configuration = "common: 1\n";
  if (what == "configuration") {
    const int rank = recognise_environment(process_variable).rank;
    options.configuration += fmt::format("own: {}\n", rank == on_rank);
  }
  if (what == "early-error") fail_input("a bad file");
  return launch(options, args, [&](Rank& rank) { run_body(rank, what, on_rank); });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    return report_failure(error);
  }
}
