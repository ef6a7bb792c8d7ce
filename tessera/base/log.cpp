#include "tessera/base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <ctime>
#include <mutex>
#include <set>
#include <string>

namespace tessera {

void log_line(LogLevel level, std::string_view text) {
  const char* label = level == LogLevel::info      ? ""
                      : level == LogLevel::warning ? "warning: "
                                                   : "error: ";
  std::tm now{};
  const std::time_t seconds = std::time(nullptr);
  localtime_r(&seconds, &now);
  const std::string line = fmt::format("[{:%Y-%m-%d %H:%M:%S}] {}{}\n", now, label, text);
  // One write call per line; a log that cannot be written is not worth dying for.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

bool is_first_time(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> asked;
  const std::lock_guard lock(mutex);
  return asked.insert(text).second;
}

}  // namespace tessera
