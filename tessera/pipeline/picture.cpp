#include "tessera/pipeline/picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

using Row = std::vector<TimedAction>;

char letter_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
    case ActionKind::evaluate: return 'F';
    case ActionKind::backward: return 'B';
    case ActionKind::backward_input: return 'I';
    case ActionKind::backward_weight: return 'W';
  }
  return '?';
}

std::string label_of(const Action& action, int chunks) {
  std::string label = fmt::format("{}{}", letter_of(action.kind), action.microbatch);
  if (chunks > 1) label += static_cast<char>('a' + action.chunk % 26);
  return label;
}

// Each kind of action has its own hue; later chunks are lighter.
std::string colour_of(const Action& action, int chunks) {
  struct Hue {
    int hue, saturation, lightness;
  };
  const Hue base = is_forward(action.kind)                     ? Hue{212, 75, 52}
                   : action.kind == ActionKind::backward       ? Hue{142, 45, 40}
                   : action.kind == ActionKind::backward_input ? Hue{172, 55, 38}
                                                               : Hue{32, 85, 52};
  const int lighter = chunks > 1 ? 28 * action.chunk / (chunks - 1) : 0;
  return fmt::format("hsl({},{}%,{}%)", base.hue, base.saturation, base.lightness + lighter);
}

// The first time at which a rank holds its maximum, and that maximum.
struct Peak {
  double time = 0;
  int held = 0;
};

Peak peak_of(const Row& row) {
  Peak peak;
  int held = 0;
  for (const TimedAction& each : row) {
    if (each.action.kind == ActionKind::forward && ++held > peak.held) peak = {each.begin, held};
    if (each.action.kind != ActionKind::evaluate && ends_microbatch(each.action.kind)) --held;
  }
  return peak;
}

double shortest_action(const Timeline& timeline) {
  double shortest = timeline.length;
  for (const Row& row : timeline.ranks)
    for (const TimedAction& each : row) shortest = std::min(shortest, each.end - each.begin);
  return shortest > 0 ? shortest : 1;
}

double idle_part(const Row& row, double length) {
  double busy = 0;
  for (const TimedAction& each : row) busy += each.end - each.begin;
  return length > 0 ? 1 - busy / length : 0;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '&')
      safe += "&amp;";
    else
      safe += c;
  }
  return safe;
}

// Sizes of the image, in its own units.
struct Canvas {
  double left = 64, top = 58, row = 34, box = 24, scale = 1, width = 0, height = 0;
  double x(double time) const { return left + time * scale; }
  double y(std::size_t rank) const { return top + row * static_cast<double>(rank); }
};

Canvas canvas_for(const Timeline& timeline) {
  constexpr double kBox = 26, kWidest = 4000;
  Canvas canvas;
  canvas.scale =
      std::min(kBox / shortest_action(timeline), kWidest / std::max(timeline.length, 1e-9));
  canvas.width = canvas.left + timeline.length * canvas.scale + 90;
  canvas.height = canvas.top + canvas.row * static_cast<double>(timeline.ranks.size()) + 16;
  return canvas;
}

std::string box_svg(const Canvas& canvas, std::size_t rank, const TimedAction& each, int chunks,
                    const std::string& unit) {
  const double width = std::max(0.5, (each.end - each.begin) * canvas.scale - 1);
  const std::string label = label_of(each.action, chunks);
  std::string text = fmt::format(
      "<g><title>{}: {:.4g} to {:.4g}{}</title><rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" "
      "height=\"{:.0f}\" rx=\"2\" fill=\"{}\"/>",
      label, each.begin, each.end, unit, canvas.x(each.begin), canvas.y(rank), width, canvas.box,
      colour_of(each.action, chunks));
  if (width > 6.5 * static_cast<double>(label.size()))
    text += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" class=\"b\">{}</text>",
                        canvas.x(each.begin) + width / 2, canvas.y(rank) + 16, label);
  return text + "</g>\n";
}

std::string row_svg(const Canvas& canvas, const Timeline& timeline, std::size_t rank,
                    const PictureOptions& options) {
  const Row& row = timeline.ranks[rank];
  std::string text = fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.2f}\" class=\"r\">rank {}</text><rect x=\"{:.2f}\" y=\"{:.2f}\" "
      "width=\"{:.2f}\" height=\"{:.0f}\" fill=\"#e4e4e4\"/>\n",
      canvas.left - 8, canvas.y(rank) + 16, rank, canvas.left, canvas.y(rank),
      timeline.length * canvas.scale, canvas.box);
  for (const TimedAction& each : row)
    text += box_svg(canvas, rank, each, options.chunks, options.unit);
  if (const Peak peak = peak_of(row); peak.held > 0)
    text += fmt::format(
        "<path d=\"M{0:.2f} {1:.2f} l-4 -7 h8 z\" fill=\"#b00020\"/><text x=\"{2:.2f}\" "
        "y=\"{3:.2f}\" class=\"p\">{4} held</text>\n",
        canvas.x(peak.time) + 6, canvas.y(rank) + 1, canvas.x(peak.time) + 13, canvas.y(rank) - 2,
        peak.held);
  return text + fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" class=\"i\">{:.1f} % idle</text>\n",
                            canvas.x(timeline.length) + 6, canvas.y(rank) + 16,
                            100 * idle_part(row, timeline.length));
}

std::string legend_svg(const Timeline& timeline, int chunks) {
  std::string text;
  double x = 64;
  const auto add = [&](ActionKind kind, const char* name) {
    for (const Row& row : timeline.ranks)
      for (const TimedAction& each : row)
        if (each.action.kind == kind) {
          text += fmt::format(
              "<rect x=\"{0:.0f}\" y=\"26\" width=\"12\" height=\"12\" rx=\"2\" "
              "fill=\"{1}\"/><text "
              "x=\"{2:.0f}\" y=\"36\" class=\"l\">{3}</text>",
              x, colour_of({kind, 0, 0}, chunks), x + 16, name);
          x += 34 + 7.0 * static_cast<double>(std::string_view(name).size());
          return;
        }
  };
  add(ActionKind::forward, "F forward");
  add(ActionKind::evaluate, "F forward");
  add(ActionKind::backward, "B backward");
  add(ActionKind::backward_input, "I input gradient");
  add(ActionKind::backward_weight, "W weight gradient");
  return text + "\n";
}

constexpr std::size_t kWidestText = 160;

double mean_action(const Timeline& timeline) {
  double busy = 0;
  std::size_t count = 0;
  for (const Row& row : timeline.ranks)
    for (const TimedAction& each : row) busy += each.end - each.begin, ++count;
  return count > 0 ? busy / static_cast<double>(count) : 0;
}

// The time of one cell: the shortest action, unless it is so short that the lines would become too
// long. In a recorded run all durations differ, so the total length decides.
double text_unit(const Timeline& timeline, const PictureOptions& options, std::size_t cell) {
  const double shortest = shortest_action(timeline);
  const bool alike = 4 * shortest > mean_action(timeline);
  if (alike && options.unit.empty()) return shortest;
  return std::max(shortest, timeline.length * static_cast<double>(cell) / kWidestText);
}

struct TextScale {
  double unit;       // duration of a cell
  std::size_t cell;  // characters per cell
  std::size_t column(double time) const {
    return static_cast<std::size_t>(std::lround(time / unit)) * cell;
  }
};

void fill(std::string& line, std::size_t end, char with) {
  if (line.size() < end) line.append(end - line.size(), with);
}

std::string row_text(const Row& row, double length, const PictureOptions& options,
                     const TextScale& scale) {
  std::string line;
  for (const TimedAction& each : row) {
    if (line.size() > kWidestText) break;
    fill(line, scale.column(each.begin), '.');
    const std::size_t end = std::max(line.size() + scale.cell, scale.column(each.end));
    line += label_of(each.action, options.chunks);
    fill(line, end, ' ');
  }
  fill(line, scale.column(length), '.');
  if (line.size() > kWidestText) line = line.substr(0, kWidestText) + " ...";
  return line;
}

}  // namespace

std::string timeline_text(const Timeline& timeline, const PictureOptions& options) {
  std::size_t cell = 2;
  for (const Row& row : timeline.ranks)
    for (const TimedAction& each : row)
      cell = std::max(cell, label_of(each.action, options.chunks).size() + 1);
  const double unit = text_unit(timeline, options, cell);
  std::string text;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    text += fmt::format("rank {:<3} {}\n", rank,
                        row_text(timeline.ranks[rank], timeline.length, options, {unit, cell}));
  return text;
}

std::string timeline_svg(const Timeline& timeline, const PictureOptions& options) {
  const Canvas canvas = canvas_for(timeline);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\">\n"
      "<style>text{{font-family:sans-serif;font-size:12px;fill:#222}} .b{{fill:#fff;font-size:10px;"
      "text-anchor:middle}} .r{{text-anchor:end}} .p{{font-size:9px;fill:#b00020}} "
      ".i,.l{{font-size:11px;fill:#555}} .t{{font-size:14px;font-weight:bold}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"{2:.0f}\" y=\"17\" class=\"t\">{3}</text>\n",
      canvas.width, canvas.height, canvas.left, escaped(options.title));
  text += legend_svg(timeline, options.chunks);
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    text += row_svg(canvas, timeline, rank, options);
  return text + "</svg>\n";
}

}  // namespace tessera
