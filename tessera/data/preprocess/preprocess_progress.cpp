#include "tessera/data/preprocess/preprocess_progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/log.h"

namespace tessera {
namespace {

constexpr auto kTerminalInterval = std::chrono::milliseconds(200);
constexpr auto kLogInterval = std::chrono::seconds(30);
constexpr int kBarColumns = 24;

std::string size_of_bytes(double bytes) {
  for (const char* unit : {"B", "kB", "MB", "GB"}) {
    if (bytes < 1000) return fmt::format("{:.{}f} {}", bytes, unit[0] == 'B' ? 0 : 1, unit);
    bytes /= 1000;
  }
  return fmt::format("{:.1f} TB", bytes);
}

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9)));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

double part_done(const PreprocessPace& pace) {
  const double part =
      pace.total > 0 ? static_cast<double>(pace.done) / static_cast<double>(pace.total) : 1;
  return std::clamp(part, 0.0, 1.0);
}

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string pace_text(const PreprocessPace& pace) {
  const double rate =
      pace.seconds > 0 ? static_cast<double>(pace.done - pace.begun) / pace.seconds : 0;
  const double left = static_cast<double>(pace.total - pace.done) / rate;
  return fmt::format("{:.0f}% of {}, {} documents, {}/s, {} left",
                     std::floor(100 * part_done(pace)),
                     size_of_bytes(static_cast<double>(pace.total)), pace.documents,
                     size_of_bytes(rate), rate > 0 ? duration(std::max(0.0, left)) : "?");
}

std::string pace_bar(const PreprocessPace& pace, int width) {
  const auto filled = static_cast<std::size_t>(kBarColumns * part_done(pace));
  const std::string line =
      fmt::format("[{:<{}}] {}", std::string(filled, '='), kBarColumns, pace_text(pace));
  return line.substr(0, static_cast<std::size_t>(std::max(1, width - 1)));
}

PreprocessProgress::PreprocessProgress(std::int64_t total)
    : total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      shown_(start_) {}

PreprocessProgress::~PreprocessProgress() { clear(); }

void PreprocessProgress::clear() {
  if (!live_) return;
  constexpr std::string_view kClear = "\r\x1b[K";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kClear.data(), kClear.size());
  live_ = false;
}

void PreprocessProgress::update(std::int64_t done, std::int64_t documents) {
  if (begun_ < 0) begun_ = done;
  const Clock::time_point now = Clock::now();
  if (now - shown_ < (terminal_ ? Clock::duration(kTerminalInterval) : kLogInterval)) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const PreprocessPace pace{done, total_, documents, seconds, begun_};
  if (!terminal_) return log_info("{}", pace_text(pace));
  const std::string line = "\r\x1b[K" + pace_bar(pace, terminal_columns());
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  live_ = true;
}

}  // namespace tessera
