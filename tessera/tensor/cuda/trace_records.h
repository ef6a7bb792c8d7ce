// Converts CUPTI's records to trace events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tessera/tensor/cuda/cupti.h"
#include "tessera/tensor/trace.h"

namespace tessera {

/// The kind under which ranges are registered with CUPTI; 0 stands for none, so a range's id is its
/// index plus 1.
constexpr CUpti_ExternalCorrelationKind kRangeIds = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

/// CUPTI's clock and ours at two moments. Times between them (nearly all) are interpolated, so that
/// an adjustment of the system's clock does no harm.
struct ClockPair {
  std::uint64_t cupti_ns;
  double host_us;
};
struct ClockMap {
  ClockPair begin, end;
  double host_us(std::uint64_t cupti_ns) const;
};

class TraceRecords {
 public:
  /// Reads a buffer that CUPTI has filled. The order of buffers and records has no meaning.
  void read(std::uint8_t* buffer, std::size_t valid_bytes);
  /// All work, sorted by start.
  std::vector<TraceEvent> events(const ClockMap& clocks) const;

 private:
  struct Work {
    TraceEvent event;  ///< without times and parent
    std::uint64_t start, end;
    std::int64_t runtime_correlation;  ///< of copies, which a call may be known by instead
  };

  void note(const CUpti_Activity* record);
  std::int64_t range_of(const Work& work) const;

  std::vector<Work> work_;
  /// The range that a call of CUDA was made in, by the call's correlation number.
  std::unordered_map<std::int64_t, std::int64_t> ranges_;
};

}  // namespace tessera
