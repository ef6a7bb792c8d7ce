#include "tessera/observe/trace_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

namespace tessera {
namespace {

bool on_gpu(const TraceEvent& event) { return event.kind != TraceKind::range; }

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

struct Row {
  std::string name;
  double microseconds = 0;
  std::int64_t calls = 0;
};

std::string kernel_line(const Row& row, double whole, double steps) {
  return fmt::format("{:10.3f} {:6.1f} % {:10.1f} {:10.1f}  {}\n", row.microseconds / 1e3 / steps,
                     share(row.microseconds, whole), static_cast<double>(row.calls) / steps,
                     row.microseconds / static_cast<double>(row.calls), row.name);
}

std::vector<Row> rows_by_name(const std::vector<TraceEvent>& events) {
  std::map<std::string, Row> by_name;
  for (const TraceEvent& event : events) {
    if (!on_gpu(event)) continue;
    Row& row = by_name[event.name];
    row.name = event.name;
    row.microseconds += event.duration;
    row.calls += 1;
  }
  std::vector<Row> rows;
  for (const auto& [name, row] : by_name) rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater(), &Row::microseconds);
  return rows;
}

Row sum_of(std::span<const Row> rows, std::string name) {
  Row sum{std::move(name)};
  for (const Row& row : rows) {
    sum.microseconds += row.microseconds;
    sum.calls += row.calls;
  }
  return sum;
}

// Ranges of one name inside ranges of one name are one node.
class RangeTree {
 public:
  explicit RangeTree(const std::vector<TraceEvent>& events) {
    const bool gpu = std::ranges::any_of(events, on_gpu);
    std::vector<std::size_t> node_of;  // by the place of a range
    for (const TraceEvent& event : events) {
      const std::size_t around =
          event.parent < 0 ? kRoot : node_of[static_cast<std::size_t>(event.parent)];
      if (on_gpu(event)) {
        nodes_[around].own += event.duration;
        continue;
      }
      node_of.push_back(child(around, event.name));
      nodes_[node_of.back()].times += 1;
      if (gpu) continue;
      nodes_[node_of.back()].own += event.duration;
      if (around != kRoot) nodes_[around].own -= event.duration;
    }
    add_up(kRoot);
  }

  std::string table(double steps) const {
    std::string text = fmt::format("{:>10} {:>8} {:>10} {:>10}  {}\n", "ms/step", "share", "own ms",
                                   "times/step", "range");
    if (nodes_[kRoot].own > 0) text += line(kRoot, 0, steps);
    for (const std::size_t each : nodes_[kRoot].children) text += lines(each, 0, steps);
    return text;
  }

 private:
  static constexpr std::size_t kRoot = 0;
  struct Node {
    std::string name;
    double own = 0;    ///< microseconds that no range inside has
    double whole = 0;  ///< with those inside
    std::int64_t times = 0;
    std::vector<std::size_t> children = {};
  };

  std::size_t child(std::size_t parent, const std::string& name) {
    for (const std::size_t each : nodes_[parent].children)
      if (nodes_[each].name == name) return each;
    nodes_.push_back({name});
    nodes_[parent].children.push_back(nodes_.size() - 1);
    return nodes_.size() - 1;
  }

  double add_up(std::size_t node) {
    double whole = nodes_[node].own;
    for (const std::size_t each : nodes_[node].children) whole += add_up(each);
    return nodes_[node].whole = whole;
  }

  std::string line(std::size_t node, std::size_t depth, double steps) const {
    const Node& n = nodes_[node];
    const double shown = node == kRoot ? n.own : n.whole;
    return fmt::format("{:10.3f} {:6.1f} % {:10.3f} {:10.1f}  {}{}\n", shown / 1e3 / steps,
                       share(shown, nodes_[kRoot].whole), n.own / 1e3 / steps,
                       static_cast<double>(n.times) / steps, std::string(2 * depth, ' '), n.name);
  }

  std::string lines(std::size_t node, std::size_t depth, double steps) const {
    std::string text = line(node, depth, steps);
    for (const std::size_t each : nodes_[node].children) text += lines(each, depth + 1, steps);
    return text;
  }

  std::vector<Node> nodes_ = {{"outside of all ranges"}};
};

}  // namespace

std::string kernel_table(const std::vector<TraceEvent>& events, std::int64_t steps,
                         std::size_t most) {
  const std::vector<Row> rows = rows_by_name(events);
  if (rows.empty()) return "";
  const auto per = static_cast<double>(std::max<std::int64_t>(1, steps));
  const std::size_t shown = most == 0 ? rows.size() : std::min(most, rows.size());
  const Row all = sum_of(rows, "all");
  std::string text = fmt::format("{:>10} {:>8} {:>10} {:>10}  {}\n", "ms/step", "share",
                                 "calls/step", "mean us", "kernel");
  for (std::size_t i = 0; i < shown; ++i) text += kernel_line(rows[i], all.microseconds, per);
  if (shown < rows.size())
    text += kernel_line(
        sum_of(std::span(rows).subspan(shown), fmt::format("{} others", rows.size() - shown)),
        all.microseconds, per);
  return text + kernel_line(all, all.microseconds, per);
}

std::string range_table(const std::vector<TraceEvent>& events, std::int64_t steps) {
  return RangeTree(events).table(static_cast<double>(std::max<std::int64_t>(1, steps)));
}

std::string trace_tables(const std::vector<TraceEvent>& events, std::int64_t steps,
                         std::size_t most) {
  const std::string kernels = kernel_table(events, steps, most);
  return (kernels.empty() ? "" : "\n" + kernels) + "\n" + range_table(events, steps);
}

}  // namespace tessera
