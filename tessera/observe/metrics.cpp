#include "tessera/observe/metrics.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/base/log.h"

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

// NaN and infinity have no form in JSON.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

// The lines up to an iteration: a resumed run repeats the others. A file that holds anything but
// metrics is not touched: its name was given by mistake. But the last line may be one of ours that
// was cut off, by a crash or a full disk.
std::string kept_lines(const fs::path& path, std::int64_t last) {
  const std::string text = read_text_file(path);
  const bool torn = !text.empty() && text.back() != '\n';
  std::istringstream before(text);
  std::string kept;
  std::int64_t number = 0;
  for (std::string line; std::getline(before, line);) {
    ++number;
    const Json entry = Json::parse(line, nullptr, false);
    if (entry.is_discarded() && torn && before.eof() && (number > 1 || line.front() == '{')) break;
    check_input(
        entry.is_object() && entry.contains("iteration") && entry["iteration"].is_number_integer(),
        "the metrics file '{}' has something else than metrics in line {}: choose another file",
        path.string(), number);
    if (entry["iteration"].get<std::int64_t>() <= last) kept += line + "\n";
  }
  return kept;
}

}  // namespace

std::string format_log_line(const StepMetrics& m, std::int64_t skipped, bool throughput) {
  std::string line = fmt::format(
      " iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} |",
      m.iteration, m.iterations, m.consumed_samples, m.seconds * 1e3);
  if (throughput) line += fmt::format(" throughput per GPU (TFLOP/s/GPU): {:.3f} |", m.tflops);
  line += fmt::format(" learning rate: {:.6E} | global batch size: {:5} | lm loss: {:.6E} |",
                      m.learning_rate, m.global_batch, m.loss);
  for (const auto& [name, loss] : m.extra_losses) line += fmt::format(" {}: {:.6E} |", name, loss);
  return line + fmt::format(
                    " loss scale: {:.1f} | grad norm: {:.3f} | number of skipped iterations: {:3} "
                    "| number of nan iterations:   0 | data wait (ms): {:.1f} |",
                    m.loss_scale, m.grad_norm, skipped, m.longest_data_wait * 1e3);
}

std::string format_progress_line(const StepMetrics& m, int width) {
  const double done = static_cast<double>(m.iteration) /
                      static_cast<double>(std::max<std::int64_t>(1, m.iterations));
  const std::string text = fmt::format(
      "step {}/{}  loss {:.4f}  lr {:.2e}  grad {:.3f}  {} tok/s  ETA {}", m.iteration,
      m.iterations, m.loss, m.learning_rate, m.grad_norm, short_count(m.tokens_per_second),
      clock_time(static_cast<double>(m.iterations - m.iteration) * m.seconds));
  const int room = width - static_cast<int>(text.size()) - 4;
  if (room < 8) return text.substr(0, static_cast<std::size_t>(std::max(1, width - 1)));
  const int bar = std::min(room, 30);
  const int filled = static_cast<int>(done * bar);
  return fmt::format("[{}{}] {}", std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(bar - filled), '.'), text);
}

void MetricsFile::check_place(const fs::path& path) {
  check_folder_can_be(fs::absolute(path).parent_path());
  if (fs::exists(path)) kept_lines(path, 0);
}

MetricsFile::MetricsFile(const fs::path& path, std::int64_t resumed) : path_(path) {
  make_folders(fs::absolute(path).parent_path());
  if (fs::is_regular_file(path)) {
    // A new run adds to what is there.
    const std::int64_t last = resumed > 0 ? resumed : std::numeric_limits<std::int64_t>::max();
    const std::string kept = kept_lines(path, last);
    if (kept.size() != fs::file_size(path)) write_file_atomically(path, kept);
  }
  constexpr int kMode = 0666;
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode);
  check_input(file_ >= 0, "cannot write the metrics file '{}': {}", path.string(),
              std::strerror(errno));
}

MetricsFile::~MetricsFile() { ::close(file_); }

void MetricsFile::write_line(const std::string& line) {
  const std::string text = line + "\n";
  const off_t before = ::lseek(file_, 0, SEEK_END);
  ssize_t written = 0;
  do written = ::write(file_, text.data(), text.size());
  while (written < 0 && errno == EINTR);
  const int why = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(text.size());
  // No half line: the next one begins where it did.
  if (!whole && written > 0) [[maybe_unused]]
    const int cut = ::ftruncate(file_, before);
  if (!whole && !failing_)
    log_warning("cannot write the metrics file '{}': {}; the run goes on, and lines are missing",
                path_.string(), std::strerror(why));
  failing_ = !whole;
}

void MetricsFile::write(const StepMetrics& m) {
  const auto now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  Json line{{"iteration", m.iteration},
            {"consumed_samples", m.consumed_samples},
            {"lm_loss", number(m.loss)},
            {"learning_rate", m.learning_rate},
            {"grad_norm", number(m.grad_norm)},
            {"seconds", m.seconds},
            {"data_wait", m.data_wait},
            {"tokens_per_second", m.tokens_per_second},
            {"tflops", m.tflops},
            {"loss_scale", m.loss_scale},
            {"skipped", m.skipped},
            {"time", now}};
  for (const auto& [name, loss] : m.extra_losses) line[name] = number(loss);
  write_line(line.dump());
}

void MetricsFile::write_evaluation(std::int64_t iteration, const std::string& split, double loss) {
  write_line(Json{{"iteration", iteration},
                  {split + "_loss", number(loss)},
                  {split + "_ppl", number(std::exp(loss))}}
                 .dump());
}

void MetricsFile::write_set_evaluation(std::int64_t iteration, const std::string& split,
                                       const std::string& set, double loss) {
  write_line(Json{{"iteration", iteration},
                  {"set", set},
                  {split + "_set_loss", number(loss)},
                  {split + "_set_ppl", number(std::exp(loss))}}
                 .dump(-1, ' ', false, Json::error_handler_t::replace));
}

ProgressDisplay::ProgressDisplay(std::int64_t log_interval, bool throughput, bool shown)
    : log_interval_(log_interval),
      throughput_(throughput),
      shown_(shown),
      terminal_(shown && ::isatty(STDERR_FILENO) == 1) {}

ProgressDisplay::~ProgressDisplay() { clear_live_line(); }

void ProgressDisplay::clear_live_line() {
  if (!live_) return;
  // The last state stays on the screen.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, "\n", 1);
  live_ = false;
}

void ProgressDisplay::average_in(const StepMetrics& m) {
  sums_.seconds += m.seconds;
  sums_.loss += m.loss;
  sums_.tflops += m.tflops;
  ++summed_;
  skipped_ += m.skipped ? 1 : 0;
}

void ProgressDisplay::step(const StepMetrics& metrics) {
  if (!shown_) return;
  average_in(metrics);
  if (terminal_) {
    const std::string line = "\r\x1b[K" + format_progress_line(metrics, terminal_width());
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    live_ = true;
  }
  if (metrics.iteration % log_interval_ != 0 && metrics.iteration != metrics.iterations) return;
  // As in Megatron, loss and time are means over the interval, the rest is the last step's.
  StepMetrics shown = metrics;
  const auto n = static_cast<double>(summed_);
  shown.seconds = sums_.seconds / n;
  shown.loss = sums_.loss / n;
  shown.tflops = sums_.tflops / n;
  sums_ = {};
  summed_ = 0;
  if (!terminal_) log_info("{}", format_log_line(shown, skipped_, throughput_));
  skipped_ = 0;
}

void ProgressDisplay::message(const std::string& text) {
  if (!shown_) return;
  clear_live_line();
  log_info("{}", text);
}

}  // namespace tessera
