#include "tessera/parallel/mesh_picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "tessera/parallel/rank_grid.h"

namespace tessera {
namespace {

// Whether experts are spread over the ranks in another way than everything else.
bool own_expert_grid(const ParallelOptions& o) {
  return o.expert > 1 || o.expert_tensor_size() != o.tensor;
}

using Lines = std::vector<std::string>;

constexpr int kLeftOut = -1;
constexpr int kManyRanks = 64;

// What is drawn of things in a row: all of a few; of many the first ones and the last one.
class Shortener {
 public:
  explicit Shortener(int ranks) : longest_(ranks > kManyRanks ? 4 : 8) {}

  // The numbers below `count`, with kLeftOut where some are missing.
  std::vector<int> numbers(int count) const {
    const bool whole = count <= longest_;
    std::vector<int> shown;
    for (int i = 0; i < (whole ? count : longest_ / 2); ++i) shown.push_back(i);
    if (!whole) shown.insert(shown.end(), {kLeftOut, count - 1});
    return shown;
  }

  std::string list(int count, const std::function<std::string(int)>& name) const {
    std::string text;
    for (const int i : numbers(count))
      text += (text.empty() ? "" : " ") + (i == kLeftOut ? "..." : name(i));
    return text;
  }

 private:
  int longest_;
};

std::string padded(const std::string& text, std::size_t width) {
  return fmt::format("{:<{}}", text, width);
}

// "dp 3", as wide as the last one of `count`, and a gap.
std::string label(std::string_view axis, int number, int count) {
  const std::size_t width = fmt::format("{} {}", axis, count - 1).size() + 2;
  return padded(fmt::format("{} {}", axis, number), width);
}

// A grid of ranks, rank = t + tensor (c + columns (r + rows p)), and what its axes are called.
struct Drawing {
  std::string_view title;
  std::string_view column_name, row_name;
  int tensor, columns, rows, pipeline;
  int side;   // of the squares that tensor groups are drawn as; 1: a line each
  int width;  // of a rank's number
  Shortener shortener;
};

// Line `line` of the tensor group that starts at rank `first`.
std::string cell(const Drawing& d, int first, int line) {
  const int each = d.side > 1 ? d.side : d.tensor;
  const auto number = [&](int i) {
    return fmt::format("{:>{}}", first + line * each + i, d.width);
  };
  return "[" + d.shortener.list(each, number) + "]";
}

// A text per column that is drawn, all of one width.
std::string columns(const Drawing& d, const std::function<std::string(int)>& text_of) {
  const std::size_t width =
      std::max(cell(d, 0, 0).size(), label(d.column_name, 0, d.columns).size() - 2);
  std::string text;
  for (const int column : d.shortener.numbers(d.columns))
    text += column == kLeftOut ? "...  " : padded(text_of(column), width + 2);
  return text;
}

// The tensor groups of one pipeline stage and row: a line, or one per line of their squares.
Lines row_lines(const Drawing& d, int stage, int row) {
  Lines lines;
  for (const int line : d.shortener.numbers(d.side))
    lines.push_back(line == kLeftOut ? "..." : columns(d, [&](int column) {
      return cell(d, d.tensor * (column + d.columns * (row + d.rows * stage)), line);
    }));
  return lines;
}

Lines draw(const Drawing& d) {
  const std::string no_stage(label("pp", 0, d.pipeline).size(), ' ');
  const std::string no_row(label(d.row_name, 0, d.rows).size(), ' ');
  Lines lines{std::string(d.title), no_stage + no_row + columns(d, [&](int column) {
                                      return label(d.column_name, column, d.columns);
                                    })};
  for (const int stage : d.shortener.numbers(d.pipeline)) {
    if (stage == kLeftOut) {
      lines.emplace_back("...");
      continue;
    }
    std::string left = label("pp", stage, d.pipeline);
    for (const int row : d.shortener.numbers(d.rows)) {
      std::string middle = row == kLeftOut ? "..." : label(d.row_name, row, d.rows);
      for (const std::string& line : row == kLeftOut ? Lines{""} : row_lines(d, stage, row)) {
        lines.push_back(left + middle + line);
        left = no_stage;
        middle = no_row;
      }
    }
  }
  return lines;
}

std::string beside(const Lines& left, const Lines& right) {
  std::size_t width = 0;
  for (const std::string& line : left) width = std::max(width, line.size());
  std::string text;
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::string line = i < left.size() ? left[i] : "";
    if (i < right.size()) line = padded(line, width + 4) + right[i];
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty()) text += line + "\n";
  }
  return text;
}

// The groups along one axis, whose neighbours are `stride` ranks apart.
std::string groups(std::string_view name, int ranks, int size, int stride) {
  if (size == 1) return "";
  const Shortener shortener(ranks);
  const auto group = [&](int number) {
    const int first = number / stride * stride * size + number % stride;
    return "{" + shortener.list(size, [&](int i) { return std::to_string(first + i * stride); }) +
           "}";
  };
  const int count = ranks / size;
  return fmt::format("  {:<15} {} of {}: {}\n", name, count, size, shortener.list(count, group));
}

std::string all_groups(const ParallelOptions& o, int ranks) {
  std::string text = groups("tensor", ranks, o.tensor, 1);
  if (o.tensor_2d > 1) {
    text += groups("tensor row", ranks, o.tensor_2d, 1);
    text += groups("tensor column", ranks, o.tensor_2d, o.tensor_2d);
  }
  text += groups("context", ranks, o.context, o.tensor);
  if (const int heads = o.context_heads(); o.context > 1 && heads > 1) {
    text += groups("context heads", ranks, heads, o.tensor);
    text += groups("context ring", ranks, o.context / heads, o.tensor * heads);
  }
  text += groups("data", ranks, o.data, o.tensor * o.context);
  if (o.sharding != Sharding::none && o.sharding_instances > 1 && o.pipeline == 1) {
    const int data_ranks = o.data * o.context;
    const int shards = data_ranks / o.sharding_instances;
    text += groups("sharding", ranks, shards, o.tensor);
    text += groups("replication", ranks, o.sharding_instances, o.tensor * shards);
  }
  text += groups("pipeline", ranks, o.pipeline, o.tensor * o.context * o.data);
  if (own_expert_grid(o)) {
    const ExpertGrid experts(o, ranks);
    text += groups("expert tensor", ranks, experts.tensor(), 1);
    text += groups("expert", ranks, experts.expert(), experts.tensor());
    text += groups("expert data", ranks, experts.data(), experts.tensor() * experts.expert());
  }
  return text.empty() ? "" : "\ngroups (number of size: members)\n" + text;
}

// What data-parallel ranks share: " (shared: optimizer state and gradients)".
std::string sharing(const ParallelOptions& o) {
  if (o.sharding == Sharding::none || o.data == 1) return "";
  std::string text = " (shared: optimizer state";
  if (o.sharding >= Sharding::gradients) text += ", gradients";
  if (o.sharding == Sharding::parameters) text += ", parameters";
  if (o.sharding_instances > 1) text += fmt::format("; {} groups", o.sharding_instances);
  return text + ")";
}

std::string product(const std::vector<std::string>& factors) {
  return fmt::format("{}", fmt::join(factors, " x "));
}

}  // namespace

std::string mesh_banner(const ParallelOptions& o, int ranks, std::string_view schedule) {
  std::vector<std::string> factors;
  if (o.tensor > 1) {
    std::string tensor = fmt::format("tensor {}", o.tensor);
    if (o.tensor_2d > 1) tensor += fmt::format(" (a {0} x {0} grid)", o.tensor_2d);
    if (o.sequence_parallel) tensor += " (sequence parallel)";
    factors.push_back(tensor);
  }
  if (o.context > 1) factors.push_back(fmt::format("context {}", o.context));
  factors.push_back(fmt::format("data {}{}", o.data, sharing(o)));
  if (o.pipeline > 1)
    factors.push_back(fmt::format("pipeline {}{}", o.pipeline,
                                  schedule.empty() ? "" : fmt::format(" ({})", schedule)));
  std::string text = fmt::format("{} rank{}: {}", ranks, ranks == 1 ? "" : "s", product(factors));
  if (!own_expert_grid(o)) return text;
  const ExpertGrid experts(o, ranks);
  return text + fmt::format("; experts: tensor {} x expert {} x data {} x pipeline {}",
                            experts.tensor(), experts.expert(), experts.data(), experts.pipeline());
}

std::string mesh_picture(const ParallelOptions& o, int ranks, std::string_view schedule) {
  const RankGrid grid(o, ranks);
  check_input(!o.pipeline_before_data,
              "--mesh draws ranks in the order tensor, context, data, pipeline: drop "
              "--use-tp-pp-dp-mapping");
  const int width = static_cast<int>(std::to_string(ranks - 1).size());
  const Lines dense =
      draw({own_expert_grid(o) ? "all but experts" : "", "cp", "dp", o.tensor, o.context, o.data,
            o.pipeline, std::max(o.tensor_2d, 1), width, Shortener(ranks)});
  Lines expert;
  std::string formula = "rank = tp + TP (cp + CP (dp + DP pp)); [ ] holds tp 0, 1, ...";
  if (o.tensor_2d > 1) formula += " row by row";
  if (own_expert_grid(o)) {
    const ExpertGrid e(o, ranks);
    expert = draw({"experts", "ep", "edp", e.tensor(), e.expert(), e.data(), e.pipeline(), 1, width,
                   Shortener(ranks)});
    formula += "\nrank = etp + ETP (ep + EP (edp + EDP pp)); [ ] holds etp 0, 1, ...";
  }
  return mesh_banner(o, ranks, schedule) + "\n\n" + beside(dense, expert) + "\n" + formula + "\n" +
         all_groups(o, ranks);
}

}  // namespace tessera
