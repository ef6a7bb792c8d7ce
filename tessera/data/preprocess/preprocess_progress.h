// Shows how far preprocessing is, by bytes of the input files: on a terminal a bar that is
// rewritten, elsewhere a log line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera {

struct PreprocessPace {
  std::int64_t done = 0;   ///< bytes of the files, as they are stored
  std::int64_t total = 0;  ///< of all files
  std::int64_t documents = 0;
  double seconds = 0;      ///< of this process
  std::int64_t begun = 0;  ///< bytes that were done before it
};

/// "42% of 1.5 GB, 1234567 documents, 103.5 MB/s, 0:12 left".
std::string pace_text(const PreprocessPace& pace);
/// With a bar in front, in at most `width` columns.
std::string pace_bar(const PreprocessPace& pace, int width);

class PreprocessProgress {
 public:
  explicit PreprocessProgress(std::int64_t total);
  ~PreprocessProgress();
  PreprocessProgress(const PreprocessProgress&) = delete;
  PreprocessProgress& operator=(const PreprocessProgress&) = delete;

  void update(std::int64_t done, std::int64_t documents);
  /// Makes room for a line of somebody else.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t total_;
  std::int64_t begun_ = -1;  // at the first update
  bool terminal_;
  bool live_ = false;
  Clock::time_point start_;
  Clock::time_point shown_;
};

}  // namespace tessera
