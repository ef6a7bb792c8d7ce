#include "tessera/observe/trace_timeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "tessera/base/check.h"
#include "tessera/base/json.h"

namespace tessera {
namespace {

// What a range's title says: its name and number.
struct Title {
  std::string name;
  int number = 0;
};

Title read_title(const std::string& text) {
  const std::size_t space = text.rfind(' ');
  if (space == std::string::npos || space + 1 == text.size() || text.size() - space > 9) return {};
  if (text.find_first_not_of("0123456789", space + 1) != std::string::npos) return {};
  return {text.substr(0, space), std::stoi(text.substr(space + 1))};
}

std::optional<ActionKind> kind_of(const std::string& name) {
  if (name == "forward") return ActionKind::forward;
  if (name == "backward") return ActionKind::backward;
  if (name == "backward inputs") return ActionKind::backward_input;
  if (name == "backward weights") return ActionKind::backward_weight;
  return std::nullopt;
}

// One event: "step 11 / chunk 1 / forward 0 / ..." from when to when.
struct Piece {
  int step = -1;
  int chunk = 0;
  std::optional<ActionKind> kind;
  int microbatch = 0;
  double begin = 0, end = 0;
};

void read_path(const std::string& path, Piece& piece) {
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find(" / ", at), path.size());
    const Title title = read_title(path.substr(at, end - at));
    if (title.name == "step") piece.step = title.number;
    if (title.name == "chunk") piece.chunk = title.number;
    if (const std::optional<ActionKind> kind = kind_of(title.name)) {
      piece.kind = kind;
      piece.microbatch = title.number;
      return;
    }
    at = end + 3;
  }
}

// Ranges of the host nest in time: a path for each, as kernels have it.
class HostPaths {
 public:
  std::string enter(const std::string& title, double begin, double end) {
    while (!open_.empty() && open_.back().second <= begin) open_.pop_back();
    std::string path = open_.empty() ? title : open_.back().first + " / " + title;
    open_.emplace_back(path, end);
    return path;
  }

 private:
  std::vector<std::pair<std::string, double>> open_;  // path, and when it ends
};

std::vector<Piece> pieces_of(const Json& trace, const std::string& what) {
  check_input(trace.is_object() && trace.contains("traceEvents") &&
                  trace["traceEvents"].is_array() && trace.contains("baseTimeNanoseconds"),
              "'{}' is no trace of --profile", what);
  const double base = trace["baseTimeNanoseconds"].get<double>() / 1e6;
  std::vector<Piece> host, device;
  HostPaths paths;
  for (const Json& event : trace["traceEvents"]) {
    if (event.value("ph", "") != "X") continue;
    Piece piece;
    piece.begin = base + event.value("ts", 0.0) / 1e3;
    piece.end = piece.begin + event.value("dur", 0.0) / 1e3;
    const bool range = event.value("cat", "") == "user_annotation";
    read_path(range ? paths.enter(event.value("name", ""), piece.begin, piece.end)
                    : event.value("args", Json::object()).value("range", ""),
              piece);
    if (piece.step >= 0 && piece.kind) (range ? host : device).push_back(piece);
  }
  return device.empty() ? host : device;
}

std::vector<TimedAction> merge_pieces(const std::vector<Piece>& pieces, int step) {
  std::map<std::tuple<int, int, int>, TimedAction> actions;
  for (const Piece& piece : pieces) {
    if (piece.step != step) continue;
    const std::tuple key(static_cast<int>(*piece.kind), piece.chunk, piece.microbatch);
    const auto [found, fresh] = actions.try_emplace(
        key, TimedAction{{*piece.kind, piece.microbatch, piece.chunk}, piece.begin, piece.end});
    found->second.begin = std::min(found->second.begin, piece.begin);
    found->second.end = std::max(found->second.end, piece.end);
  }
  std::vector<TimedAction> sorted;
  for (const auto& [key, action] : actions) sorted.push_back(action);
  std::ranges::sort(sorted, {}, &TimedAction::begin);
  return sorted;
}

}  // namespace

Timeline timeline_of_traces(const std::vector<fs::path>& files) {
  std::vector<std::vector<Piece>> all;
  int step = std::numeric_limits<int>::max();
  for (const fs::path& file : files) {
    all.push_back(pieces_of(parse_json(read_text_file(file), file.string()), file.string()));
    int last = -1;
    for (const Piece& piece : all.back()) last = std::max(last, piece.step);
    check_input(last >= 0, "'{}' shows no training step", file.string());
    step = std::min(step, last);
  }
  Timeline timeline;
  double first = std::numeric_limits<double>::infinity();
  for (const std::vector<Piece>& pieces : all) {
    timeline.ranks.push_back(merge_pieces(pieces, step));
    check_input(!timeline.ranks.back().empty(), "the traces have no step in common");
    first = std::min(first, timeline.ranks.back().front().begin);
  }
  for (std::vector<TimedAction>& row : timeline.ranks)
    for (TimedAction& each : row) {
      each.begin -= first;
      each.end -= first;
      timeline.length = std::max(timeline.length, each.end);
    }
  return timeline;
}

}  // namespace tessera
