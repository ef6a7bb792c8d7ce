#include "tessera/tensor/trace.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

double microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Trace::Trace(Device device)
    : device_(device.kind == DeviceKind::cuda ? make_cuda_trace(device.index) : nullptr) {}

void Trace::check_can_record() {
  if (device_) device_->check_can_record();
}

void Trace::start() {
  constexpr std::size_t kUsual = 4096;
  check(!recording_, "a trace was started that records already");
  ranges_.clear();
  ranges_.reserve(kUsual);
  innermost_ = -1;
  if (device_) device_->start();
  zero_ = Clock::now();
  start_time_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count();
  recording_ = true;
}

std::vector<TraceEvent> Trace::stop() {
  check(recording_, "a trace was stopped that does not record");
  if (innermost_ >= 0)
    fail("a trace was stopped inside its range '{}'",
         ranges_[static_cast<std::size_t>(innermost_)].name);
  recording_ = false;
  std::vector<TraceEvent> events;
  for (const Range& range : ranges_) {
    TraceEvent& event = events.emplace_back();
    event.name = range.name;
    event.number = range.number;
    event.parent = range.parent;
    event.start = microseconds(range.start - zero_);
    event.duration = microseconds(range.end - range.start);
  }
  ranges_ = {};
  if (!device_) return events;
  for (TraceEvent& event : device_->stop(zero_)) events.push_back(std::move(event));
  return events;
}

std::int64_t Trace::open(const char* name, std::int64_t number) {
  std::int64_t place = -1;
  if (recording_) {
    place = static_cast<std::int64_t>(ranges_.size());
    ranges_.push_back({name, number, innermost_, Clock::now(), {}});
    innermost_ = place;
  }
  if (device_) device_->open_range(name, number, place);
  return place;
}

void Trace::close(std::int64_t place) noexcept {
  if (device_) device_->close_range(place);
  if (place < 0) return;
  Range& range = ranges_[static_cast<std::size_t>(place)];
  range.end = Clock::now();
  innermost_ = range.parent;
}

std::string range_title(const TraceEvent& range) {
  return range.number < 0 ? range.name : fmt::format("{} {}", range.name, range.number);
}

}  // namespace tessera
