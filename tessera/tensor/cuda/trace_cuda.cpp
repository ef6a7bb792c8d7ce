#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <limits>
#include <mutex>
#include <utility>

#include "tessera/base/log.h"
#include "tessera/tensor/cuda/check_cuda.h"
#include "tessera/tensor/cuda/trace_records.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Calls of the runtime and the driver are not shown, but a range is known only of calls that are
// recorded.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

struct Buffer {
  std::unique_ptr<std::uint8_t, void (*)(void*)> data;
  std::size_t valid_bytes;
};

// The buffers that CUPTI has filled. It gives them back on any thread.
class Inbox {
 public:
  void put(Buffer buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.push_back(std::move(buffer));
  }
  std::vector<Buffer> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(buffers_, {});
  }
  /// False when somebody has it already.
  bool claim() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(claimed_, true);
  }
  void release() {
    const std::lock_guard lock(mutex_);
    claimed_ = false;
  }

 private:
  std::mutex mutex_;
  std::vector<Buffer> buffers_;
  bool claimed_ = false;
};

// CUPTI serves a process, and calls back without a word about whom for; so there is one inbox, and
// one trace at a time may have it. It is never destroyed, since CUPTI may give a buffer back while
// the program ends.
Inbox& inbox() {
  // NOLINTNEXTLINE(*-non-const-global-variables)
  static Inbox& only = *std::make_unique<Inbox>().release();
  return only;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  constexpr std::size_t kAlignment = 8;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBytes));
  *bytes = *buffer != nullptr ? kBytes : 0;
  *most_records = 0;  // as many as there is room for
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid_bytes) {
  inbox().put({{buffer, std::free}, valid_bytes});
}

// Both clocks at one moment: the closest of a few tries.
ClockPair both_clocks() {
  ClockPair best{};
  double closest = std::numeric_limits<double>::infinity();
  const auto now = [] {
    return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
  };
  for (int i = 0; i < 20; ++i) {
    std::uint64_t stamp = 0;
    const double before = now();
    cupti().check(cupti().get_timestamp(&stamp), "cuptiGetTimestamp");
    const double after = now();
    if (after - before >= closest) continue;
    closest = after - before;
    best = {stamp, (before + after) / 2};
  }
  return best;
}

class CudaTrace final : public DeviceTrace {
 public:
  explicit CudaTrace(int index) : index_(index) {}
  ~CudaTrace() override {
    if (recording_) abandon();
  }

  void check_can_record() override { cupti(); }

  void start() override {
    const Cupti& api = cupti();
    wait_for_device();
    check(inbox().claim(), "another trace records in this process, and CUPTI serves one at a time");
    recording_ = true;
    range_result_ = CUPTI_SUCCESS;
    inbox().take();  // what came after the end of the trace before
    try {
      api.check(api.register_callbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
      for (const CUpti_ActivityKind kind : kKinds)
        api.check(api.enable(kind), "cuptiActivityEnable");
      begin_ = both_clocks();
    } catch (...) {
      abandon();
      throw;
    }
  }

  std::vector<TraceEvent> stop(Clock::time_point zero) override {
    const Cupti& api = cupti();
    wait_for_device();
    ClockMap clocks{begin_, both_clocks()};
    const double zero_us =
        std::chrono::duration<double, std::micro>(zero.time_since_epoch()).count();
    clocks.begin.host_us -= zero_us;
    clocks.end.host_us -= zero_us;
    for (const CUpti_ActivityKind kind : kKinds)
      api.check(api.disable(kind), "cuptiActivityDisable");
    api.check(api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    api.check(range_result_, "the external correlation of a range");
    TraceRecords records;
    for (const Buffer& buffer : inbox().take()) records.read(buffer.data.get(), buffer.valid_bytes);
    warn_of_dropped();
    recording_ = false;
    inbox().release();
    return records.events(clocks);
  }

  void open_range(const char* name, std::int64_t number, std::int64_t place) noexcept override {
    if (number < 0) {
      nvtxRangePushA(name);
    } else {
      std::array<char, 64> title{};  // the last byte stays 0
      fmt::format_to_n(title.begin(), title.size() - 1, "{} {}", name, number);
      nvtxRangePushA(title.data());
    }
    if (place >= 0)
      keep(cupti().push_external_id(kRangeIds, static_cast<std::uint64_t>(place) + 1));
  }

  void close_range(std::int64_t place) noexcept override {
    nvtxRangePop();
    std::uint64_t popped = 0;
    if (place >= 0) keep(cupti().pop_external_id(kRangeIds, &popped));
  }

 private:
  void wait_for_device() const {
    check_cuda(cudaSetDevice(index_), "cudaSetDevice");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  // Ranges cannot fail; the first that did is reported when the trace stops.
  void keep(CUptiResult result) noexcept {
    if (range_result_ == CUPTI_SUCCESS) range_result_ = result;
  }

  // After an error: nothing more is recorded, and nobody waits for what was.
  void abandon() noexcept {
    for (const CUpti_ActivityKind kind : kKinds) cupti().disable(kind);
    cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);  // or they would join the next recording
    recording_ = false;
    inbox().release();
  }

  static void warn_of_dropped() {
    std::size_t dropped = 0;
    cupti().check(cupti().get_num_dropped_records(nullptr, 0, &dropped),
                  "cuptiActivityGetNumDroppedRecords");
    if (dropped > 0) log_warning("the trace lacks {} records that CUPTI had no room for", dropped);
  }

  int index_;
  bool recording_ = false;
  CUptiResult range_result_ = CUPTI_SUCCESS;
  ClockPair begin_{};
};

}  // namespace

std::unique_ptr<DeviceTrace> make_cuda_trace(int index) {
  return std::make_unique<CudaTrace>(index);
}

}  // namespace tessera
