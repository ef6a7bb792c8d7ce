#include "tessera/observe/metric_sink.h"

namespace tessera {

// In the file of their name. Records reach the sinks in this order.
MakeSink make_live_line_sink, make_log_sink, make_jsonl_sink;
constexpr MakeSink* kSinks[] = {make_live_line_sink, make_log_sink, make_jsonl_sink};

std::vector<std::unique_ptr<MetricSink>> make_sinks(const SinkOptions& options) {
  std::vector<std::unique_ptr<MetricSink>> sinks;
  for (MakeSink* make : kSinks)
    if (std::unique_ptr<MetricSink> sink = make(options)) sinks.push_back(std::move(sink));
  return sinks;
}

}  // namespace tessera
