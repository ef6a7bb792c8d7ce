#include "tessera/tensor/cuda/trace_records.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/log.h"

namespace tessera {
namespace {

// The words of PyTorch's traces, which tools look for.
const char* memory_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE: return "Pageable";
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED: return "Pinned";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE: return "Device";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED: return "Managed";
    default: return "Other";
  }
}

const char* direction_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return "HtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "PtoP";
    default: return "other";
  }
}

// What all records of work have, under the same names. They are packed, so fields are copied and
// never referred to.
template <class Record>
TraceEvent event_of(TraceKind kind, const Record& record) {
  TraceEvent event;
  event.kind = kind;
  event.device = record.deviceId;
  event.stream = record.streamId;
  event.correlation = record.correlationId;
  return event;
}

TraceEvent kernel_of(const CUpti_ActivityKernel10& record) {
  TraceEvent event = event_of(TraceKind::kernel, record);
  const char* name = record.name;
  event.name = name != nullptr ? kernel_title(name) : "unnamed kernel";
  event.grid = {record.gridX, record.gridY, record.gridZ};
  event.block = {record.blockX, record.blockY, record.blockZ};
  event.registers = record.registersPerThread;
  event.shared_memory = std::int64_t{record.staticSharedMemory} + record.dynamicSharedMemory;
  return event;
}

TraceEvent copy_of(const CUpti_ActivityMemcpy6& record) {
  TraceEvent event = event_of(TraceKind::copy, record);
  event.name = fmt::format("Memcpy {} ({} -> {})", direction_name(record.copyKind),
                           memory_name(record.srcKind), memory_name(record.dstKind));
  event.bytes = static_cast<std::int64_t>(record.bytes);
  return event;
}

TraceEvent set_of(const CUpti_ActivityMemset4& record) {
  TraceEvent event = event_of(TraceKind::set, record);
  event.name =
      fmt::format("Memset ({})", memory_name(static_cast<std::uint8_t>(record.memoryKind)));
  event.bytes = static_cast<std::int64_t>(record.bytes);
  return event;
}

template <class Record>
const Record& as(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

}  // namespace

double ClockMap::host_us(std::uint64_t cupti_ns) const {
  const auto since_begin = [&](std::uint64_t ns) {
    return static_cast<double>(static_cast<std::int64_t>(ns - begin.cupti_ns));
  };
  const double whole = since_begin(end.cupti_ns);
  const double rate = whole > 0 ? (end.host_us - begin.host_us) / whole : 1e-3;
  return begin.host_us + rate * since_begin(cupti_ns);
}

void TraceRecords::read(std::uint8_t* buffer, std::size_t valid_bytes) {
  if (valid_bytes == 0) return;
  CUpti_Activity* record = nullptr;
  while (true) {
    const CUptiResult result = cupti().get_next_record(buffer, valid_bytes, &record);
    // The second is a record that was never finished; nothing follows it.
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED || result == CUPTI_ERROR_INVALID_KIND) return;
    cupti().check(result, "cuptiActivityGetNextRecord");
    note(record);
  }
}

void TraceRecords::note(const CUpti_Activity* record) {
  const CUpti_ActivityKind kind = record->kind;
  if (kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    const auto& link = as<CUpti_ActivityExternalCorrelation>(record);
    if (link.externalKind == kRangeIds)
      ranges_[link.correlationId] = static_cast<std::int64_t>(link.externalId) - 1;
  } else if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || kind == CUPTI_ACTIVITY_KIND_KERNEL) {
    const auto& kernel = as<CUpti_ActivityKernel10>(record);
    work_.push_back({kernel_of(kernel), kernel.start, kernel.end, 0});
  } else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = as<CUpti_ActivityMemcpy6>(record);
    work_.push_back({copy_of(copy), copy.start, copy.end, copy.runtimeCorrelationId});
  } else if (kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& set = as<CUpti_ActivityMemset4>(record);
    work_.push_back({set_of(set), set.start, set.end, 0});
  }
}

std::int64_t TraceRecords::range_of(const Work& work) const {
  for (const std::int64_t call : {work.event.correlation, work.runtime_correlation})
    if (const auto range = ranges_.find(call); range != ranges_.end()) return range->second;
  return -1;
}

std::vector<TraceEvent> TraceRecords::events(const ClockMap& clocks) const {
  std::vector<TraceEvent> events;
  std::size_t untimed = 0;
  for (const Work& work : work_) {
    if (work.start == 0 || work.end < work.start) {
      ++untimed;
      continue;
    }
    TraceEvent& event = events.emplace_back(work.event);
    event.start = clocks.host_us(work.start);
    event.duration = clocks.host_us(work.end) - event.start;
    event.parent = range_of(work);
  }
  if (untimed > 0)
    log_warning("the trace lacks {} kernels and copies that CUPTI gave no times for", untimed);
  std::ranges::sort(events, {}, &TraceEvent::start);
  return events;
}

}  // namespace tessera
