#include "tessera/base/lost_pages.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace tessera {
namespace {

struct Mapping {
  std::atomic<std::uintptr_t> begin = 0, end = 0;  // 0: a free place
  std::array<char, 512> path{};
};

// Of a fixed size and never freed: a signal handler may look at any moment.
struct Mappings {
  std::array<Mapping, 1024> all;
  std::mutex changing;
};

Mappings& mappings() {
  static Mappings mappings;
  return mappings;
}

// What a signal handler may use is little: no allocation, no streams, no locks.
void say(const char* text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void say(std::uintptr_t number) {
  std::array<char, 24> digits{};
  std::to_chars(digits.begin(), digits.end() - 1, number);
  say(digits.data());
}

void on_lost_page(int signal, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Mapping& each : mappings().all) {
    if (at < each.begin || at >= each.end) continue;
    say("tessera: cannot read '");
    say(each.path.data());
    say("' at byte ");
    say(at - each.begin);
    say(": it was cut off or replaced while it was in use, or its disk failed\n");
    ::_exit(1);
  }
  // Not ours: the instruction is repeated, and ends the program as if nobody had looked.
  std::signal(signal, SIG_DFL);
}

}  // namespace

void report_lost_pages() {
  mappings();  // made now, and not by the handler
  struct sigaction action {};
  action.sa_sigaction = on_lost_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void remember_mapping(const std::string& path, const void* data, std::size_t bytes) {
  const std::lock_guard lock(mappings().changing);
  for (Mapping& each : mappings().all) {
    if (each.begin != 0) continue;
    const std::size_t kept = path.copy(each.path.data(), each.path.size() - 1);
    each.path[kept] = '\0';
    each.end = reinterpret_cast<std::uintptr_t>(data) + bytes;
    each.begin = reinterpret_cast<std::uintptr_t>(data);
    return;
  }
}

void forget_mapping(const void* data) {
  const std::lock_guard lock(mappings().changing);
  for (Mapping& each : mappings().all)
    if (each.begin == reinterpret_cast<std::uintptr_t>(data)) each.begin = each.end = 0;
}

}  // namespace tessera
