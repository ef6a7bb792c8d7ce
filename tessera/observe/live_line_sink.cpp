#include "tessera/observe/live_line_sink.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tessera/observe/metric_sink.h"

namespace tessera {
namespace {

int terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string short_count(double x) {
  if (x >= 1e6) return fmt::format("{:.2f}M", x / 1e6);
  if (x >= 1e3) return fmt::format("{:.1f}k", x / 1e3);
  return fmt::format("{:.0f}", x);
}

std::string clock_time(double seconds) {
  const auto s = static_cast<long>(std::lround(seconds));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

// Rewrites one line. The last state stays on the screen.
class LiveLineSink : public MetricSink {
 public:
  ~LiveLineSink() override { LiveLineSink::before_log(); }

  void step(const StepMetrics& step) override {
    write("\r\x1b[K" + format_live_line(step, terminal_width()));
    shown_ = true;
  }

  void before_log() override {
    if (shown_) write("\n");
    shown_ = false;
  }

  bool live() const override { return true; }

 private:
  static void write(const std::string& text) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  }

  bool shown_ = false;
};

}  // namespace

std::string format_live_line(const StepMetrics& step, int width) {
  const Metrics& m = step.metrics;
  const double done = static_cast<double>(step.iteration) /
                      static_cast<double>(std::max<std::int64_t>(1, step.iterations));
  const double left = static_cast<double>(step.iterations - step.iteration) * m.number("seconds");
  const std::string text = fmt::format(
      "step {}/{}  loss {:.4f}  lr {:.2e}  grad {:.3f}  {} tok/s  ETA {}", step.iteration,
      step.iterations, m.number("lm_loss"), m.number("learning_rate"), m.number("grad_norm"),
      short_count(m.number("tokens_per_second")), clock_time(left));
  const int room = width - static_cast<int>(text.size()) - 4;
  if (room < 8) return text.substr(0, static_cast<std::size_t>(std::max(1, width - 1)));
  const int bar = std::min(room, 30);
  const int filled = static_cast<int>(done * bar);
  return fmt::format("[{}{}] {}", std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(bar - filled), '.'), text);
}

std::unique_ptr<MetricSink> make_live_line_sink(const SinkOptions& options) {
  if (!options.terminal) return nullptr;
  return std::make_unique<LiveLineSink>();
}

}  // namespace tessera
