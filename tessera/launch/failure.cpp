#include "tessera/launch/failure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/launch/launch.h"

namespace tessera {
namespace {

void tell_torchrun(const std::string& message) {
  const std::optional<std::string> path = process_variable("TORCHELASTIC_ERROR_FILE");
  if (!path) return;
  using namespace std::chrono;
  const auto now = duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
  std::ofstream(*path) << torchrun_error(message, now);
}

// Whoever started this process, if that can be told: the failure may be that it cannot.
Environment recognise_or_none() {
  try {
    return recognise_environment(process_variable);
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

int exit_code_of(const std::exception& error) {
  return dynamic_cast<const InputError*>(&error) != nullptr ? 2 : 1;
}

void wait_for_lower_ranks(int rank) {
  // mpirun takes a second to end the others when one exits, and busy machines take longer.
  constexpr std::chrono::seconds kTurn{2}, kLongest{6};
  std::this_thread::sleep_for(std::min(kLongest, kTurn * rank));
}

std::string torchrun_error(const std::string& message, long long seconds) {
  const nlohmann::json extra{{"py_callstack", ""}, {"timestamp", std::to_string(seconds)}};
  const nlohmann::json error{{"message", {{"message", message}, {"extraInfo", extra}}}};
  return error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int report_failure(const std::exception& error) {
  const Environment environment = recognise_or_none();
  std::string text = error.what();
  if (environment.size > 1) {
    if (exit_code_of(error) == 2) wait_for_lower_ranks(environment.rank);
    text = fmt::format("rank {}: {}", environment.rank, text);
  }
  if (environment.launcher == Launcher::torchrun) tell_torchrun(text);
  fmt::print(stderr, "tessera: {}\n", text);
  return exit_code_of(error);
}

}  // namespace tessera
