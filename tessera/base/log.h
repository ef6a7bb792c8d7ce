// Plain log lines: one write per line, so lines of several ranks never mix.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace tessera {

enum class LogLevel { info, warning, error };

/// Writes one line to standard error: "[2026-01-31 12:00:00] warning: text".
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::info, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::warning, fmt::format(text, std::forward<Args>(args)...));
}

/// Whether this is the first call of this process with this text.
bool is_first_time(const std::string& text);

/// Logs a warning once per process: ranks that are threads may all find the same problem in the
/// same files.
template <class... Args>
void log_warning_once(fmt::format_string<Args...> text, Args&&... args) {
  const std::string line = fmt::format(text, std::forward<Args>(args)...);
  if (is_first_time(line)) log_line(LogLevel::warning, line);
}

}  // namespace tessera
