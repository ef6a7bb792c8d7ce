// What a run tells about itself: a line per interval in Megatron's order, a live line on a
// terminal, and metrics.jsonl with one object per iteration.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/files.h"

namespace tessera {

struct StepMetrics {
  std::int64_t iteration = 0;
  std::int64_t iterations = 0;  ///< of the whole run
  std::int64_t consumed_samples = 0;
  std::int64_t global_batch = 0;
  double seconds = 0;  ///< per iteration
  double learning_rate = 0;
  double loss = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  double tflops = 0;  ///< model FLOP/s of this rank, in 10^12
  double loss_scale = 1;
  bool skipped = false;  ///< the gradients overflowed, the weights stayed
  double data_wait = 0;  ///< seconds of an iteration in which this rank waited for data
  /// Of the rank that waited longest, on average since the last log line; where one is due.
  double longest_data_wait = 0;
  /// By name, besides the cross entropy (nn/extra_loss.h).
  std::vector<std::pair<std::string, double>> extra_losses{};
};

/// " iteration 10/ 100 | consumed samples: ... | lm loss: ...": fields in Megatron's order.
std::string format_log_line(const StepMetrics& metrics, std::int64_t skipped, bool throughput);

/// "10/100 loss 2.513 lr 3.0e-03 grad 0.42 51.3k tok/s ETA 0:42", within `width` columns.
std::string format_progress_line(const StepMetrics& metrics, int width);

/// Appends one JSON object per line. Lines of iterations after `resumed` are dropped first: the run
/// repeats them. A line that cannot be written, such as on a full disk, is missing; that is logged
/// once, until one is written again.
class MetricsFile {
 public:
  /// InputError unless the file holds metrics, or could be made.
  static void check_place(const fs::path& path);
  MetricsFile(const fs::path& path, std::int64_t resumed);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  void write(const StepMetrics& metrics);
  void write_evaluation(std::int64_t iteration, const std::string& split, double loss);
  /// Of one validation set of several.
  void write_set_evaluation(std::int64_t iteration, const std::string& split,
                            const std::string& set, double loss);

 private:
  void write_line(const std::string& line);

  fs::path path_;
  int file_ = -1;
  bool failing_ = false;
};

/// Shows progress as it fits, or not at all: a line that is rewritten when standard error is a
/// terminal, log lines otherwise.
class ProgressDisplay {
 public:
  ProgressDisplay(std::int64_t log_interval, bool throughput, bool shown = true);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void step(const StepMetrics& metrics);
  /// Whether somebody watches each step.
  bool live() const { return terminal_; }
  /// A message of its own line.
  void message(const std::string& text);

 private:
  void clear_live_line();
  void average_in(const StepMetrics& metrics);

  std::int64_t log_interval_;
  bool throughput_;
  bool shown_;
  bool terminal_;
  bool live_ = false;  ///< a live line is on the screen
  StepMetrics sums_;   ///< since the last log line
  std::int64_t summed_ = 0;
  std::int64_t skipped_ = 0;
};

}  // namespace tessera
