// metrics.jsonl: one JSON object per iteration and per evaluation, a key for each metric.
#pragma once

#include <string>

#include "tessera/base/files.h"
#include "tessera/observe/metric_sink.h"

namespace tessera {

/// Appends to the file. Lines of iterations after `resumed` are removed first, since the run
/// repeats them. A line that cannot be written, for example on a full disk, is lost; a warning is
/// logged once until writing succeeds again.
class JsonlSink : public MetricSink {
 public:
  /// InputError unless the file holds metrics or can be created.
  static void check_place(const fs::path& path);
  JsonlSink(const fs::path& path, std::int64_t resumed);
  ~JsonlSink() override;

  void step(const StepMetrics& step) override;
  void evaluation(const EvaluationMetrics& evaluation) override;

 private:
  void write_line(const std::string& line);

  fs::path path_;
  int file_ = -1;
  bool failing_ = false;
};

}  // namespace tessera
