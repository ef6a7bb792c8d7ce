#include "tessera/observe/jsonl_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/base/log.h"

namespace tessera {
namespace {

// Of all ranks, and known only for log lines; the file has this rank's in every line.
constexpr std::string_view kNotWritten = "longest_data_wait";

// NaN and infinity have no form in JSON.
Json json_of(bool x) { return x; }
Json json_of(std::int64_t x) { return x; }
Json json_of(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

Json json_of(const Metric& metric) {
  return std::visit([](auto x) { return json_of(x); }, metric.value);
}

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

void JsonlSink::check_place(const fs::path& path) {
  check_folder_can_be(fs::absolute(path).parent_path());
  if (fs::exists(path)) kept_lines(path, 0);
}

JsonlSink::JsonlSink(const fs::path& path, std::int64_t resumed) : path_(path) {
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

JsonlSink::~JsonlSink() { ::close(file_); }

void JsonlSink::write_line(const std::string& line) {
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

void JsonlSink::step(const StepMetrics& step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Json line{{"iteration", step.iteration}, {"time", std::chrono::duration<double>(now).count()}};
  for (const Metric& metric : step.metrics)
    if (metric.name != kNotWritten) line[metric.name] = json_of(metric);
  for (const LayerMetrics& each : step.layers) {
    Json& layer = line["layers"].emplace_back(Json{{"layer", each.layer}});
    for (const Metric& metric : each.metrics) layer[metric.name] = json_of(metric);
  }
  write_line(line.dump());
}

void JsonlSink::evaluation(const EvaluationMetrics& evaluation) {
  Json line{{"iteration", evaluation.iteration}};
  if (!evaluation.set.empty()) line["set"] = evaluation.set;
  const std::string before = evaluation.split + (evaluation.set.empty() ? "_" : "_set_");
  for (const Metric& metric : evaluation.metrics) line[before + metric.name] = json_of(metric);
  // The name of a set is that of a file, which need not be UTF-8.
  write_line(line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// In the folder of --save unless it has its own name.
std::unique_ptr<MetricSink> make_jsonl_sink(const SinkOptions& options) {
  const TrainOptions& o = options.train;
  if (!o.metrics_file.empty())
    return std::make_unique<JsonlSink>(o.metrics_file, options.iteration);
  if (o.save.empty()) return nullptr;
  return std::make_unique<JsonlSink>(o.save + "/metrics.jsonl", options.iteration);
}

}  // namespace tessera
