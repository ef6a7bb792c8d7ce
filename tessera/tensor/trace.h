// Where the time goes: named ranges of the host and, on a GPU, the kernels and copies that were put
// to work inside them. Ranges always go to NVTX on a GPU, for tools such as Nsight Systems; they
// are kept here only while the trace records. Each rank has one trace, used by its thread alone.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tensor/device.h"

namespace tessera {

enum class TraceKind {
  range,   ///< of the host
  kernel,  ///< the rest are of a GPU
  copy,
  set,  ///< memory filled with a byte
};

/// Times are microseconds since the trace started.
struct TraceEvent {
  TraceKind kind = TraceKind::range;
  std::string name;
  std::int64_t number = -1;  ///< which layer, microbatch or step a range is of; -1: of none
  std::int64_t parent = -1;  ///< place of the range around it, or that it was launched in; -1: none
  double start = 0;
  double duration = 0;

  // Of work on a GPU.
  std::int64_t device = 0;
  std::int64_t stream = 0;
  std::int64_t correlation = 0;  ///< CUPTI's number of the call that launched it
  std::int64_t bytes = 0;        ///< of copies and sets
  std::array<std::int64_t, 3> grid{};
  std::array<std::int64_t, 3> block{};
  std::int64_t registers = 0;      ///< per thread
  std::int64_t shared_memory = 0;  ///< bytes per block
};

/// What a GPU adds to a trace. Made by the file that is compiled: tensor/cuda/trace_cuda.cpp or
/// tensor/cuda/no_cuda.cpp.
class DeviceTrace {
 public:
  virtual ~DeviceTrace() = default;

  /// InputError unless the GPU's work can be recorded here.
  virtual void check_can_record() = 0;
  /// Waits for all work that was launched before, then records.
  virtual void start() = 0;
  /// Waits for all work, and gives it; `zero` is time 0.
  virtual std::vector<TraceEvent> stop(std::chrono::steady_clock::time_point zero) = 0;

  /// Ranges nest. `place` becomes the parent of what is launched inside; -1: it is not recorded.
  virtual void open_range(const char* name, std::int64_t number, std::int64_t place) noexcept = 0;
  virtual void close_range(std::int64_t place) noexcept = 0;
};

std::unique_ptr<DeviceTrace> make_cuda_trace(int index);

class Trace {
 public:
  explicit Trace(Device device);

  bool recording() const { return recording_; }
  /// InputError unless this machine has what a recording needs.
  void check_can_record();
  void start();
  /// Ends the recording: ranges in the order in which they were opened, then the work of the GPU.
  std::vector<TraceEvent> stop();
  /// When the last recording started: nanoseconds of the system's clock, which ranks compare by.
  std::int64_t start_time() const { return start_time_; }

 private:
  friend class TraceRange;
  using Clock = std::chrono::steady_clock;
  struct Range {
    const char* name;
    std::int64_t number;
    std::int64_t parent;
    Clock::time_point start, end;
  };

  bool wants_ranges() const { return recording_ || device_ != nullptr; }
  /// The range's place, or -1 while nothing is recorded.
  std::int64_t open(const char* name, std::int64_t number);
  void close(std::int64_t place) noexcept;

  std::unique_ptr<DeviceTrace> device_;  ///< null on the CPU
  bool recording_ = false;
  Clock::time_point zero_;
  std::int64_t start_time_ = 0;
  std::vector<Range> ranges_;
  std::int64_t innermost_ = -1;  ///< place of the range that was opened last and is not closed
};

/// A range from here to the end of the scope. Without a trace, or on a CPU while the trace does not
/// record, it costs a branch.
class TraceRange {
 public:
  /// `name` must outlive the trace, as literals do.
  TraceRange(Trace* trace, const char* name, std::int64_t number = -1)
      : trace_(trace != nullptr && trace->wants_ranges() ? trace : nullptr) {
    if (trace_ != nullptr) place_ = trace_->open(name, number);
  }
  ~TraceRange() {
    if (trace_ != nullptr) trace_->close(place_);
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  Trace* trace_;
  std::int64_t place_ = -1;
};

/// "block forward 3"
std::string range_title(const TraceEvent& range);

/// A kernel's name as a reader wants it: demangled, without return type, parameters and our own
/// namespaces, and cut where its template arguments take it beyond 100 characters.
std::string kernel_title(const char* mangled);

}  // namespace tessera
