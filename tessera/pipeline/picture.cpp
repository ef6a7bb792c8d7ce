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

struct Colour {
  int hue, saturation, lightness;
  std::string fill() const { return fmt::format("hsl({},{}%,{}%)", hue, saturation, lightness); }
  const char* text() const { return lightness < 52 ? "#fff" : "#111"; }
};

// Each kind has its own hue, dark enough for white text. Later chunks are paler and get dark text.
Colour colour_of(const Action& action, int chunks) {
  Colour colour = is_forward(action.kind)                     ? Colour{212, 75, 42}
                  : action.kind == ActionKind::backward       ? Colour{142, 45, 30}
                  : action.kind == ActionKind::backward_input ? Colour{172, 60, 27}
                                                              : Colour{26, 85, 36};
  if (chunks > 1) colour.lightness += 44 * action.chunk / (chunks - 1);
  return colour;
}

// When a rank first holds as much as it ever does, and how much that is.
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

// Sizes of the picture, in its own units, which are pixels on a page 800 to 850 wide. A long
// timeline is cut into bands of equal time, one below the other, so that its text stays legible.
struct Canvas {
  double left = 64, top = 84, row = 40, box = 24, right = 88;
  double scale = 1;      ///< units per time
  double band_time = 1;  ///< that one band shows
  std::size_t ranks = 0, bands = 1;

  double x(double time, std::size_t band) const {
    return left + (time - band_time * static_cast<double>(band)) * scale;
  }
  double y(std::size_t rank, std::size_t band) const {
    return top + row * static_cast<double>(rank) + band_height() * static_cast<double>(band);
  }
  double band_height() const { return row * static_cast<double>(ranks) + (bands > 1 ? 22 : 0); }
  double width() const { return std::max(780.0, left + band_time * scale + right); }
  double height() const { return top + band_height() * static_cast<double>(bands); }
};

Canvas canvas_for(const Timeline& timeline) {
  constexpr double kBox = 26, kBand = 690, kMostBands = 6;
  const double length = std::max(timeline.length, 1e-9);
  Canvas canvas;
  canvas.ranks = timeline.ranks.size();
  const double wanted = std::min(kBox / shortest_action(timeline), kMostBands * kBand / length);
  // A tenth too long is squeezed into the bands that there are.
  canvas.bands = static_cast<std::size_t>(std::max(1.0, std::ceil(length * wanted / kBand - 0.1)));
  canvas.band_time = length / static_cast<double>(canvas.bands);
  // Where actions take about the same time, no band begins in the middle of one.
  const double whole =
      std::ceil(canvas.band_time / shortest_action(timeline) - 1e-9) * shortest_action(timeline);
  if (whole < 1.1 * canvas.band_time) canvas.band_time = whole;
  canvas.scale = std::min(wanted, kBand / canvas.band_time);
  return canvas;
}

// One action, or the part of it that falls into this band.
std::string box_svg(const Canvas& canvas, std::size_t rank, std::size_t band,
                    const TimedAction& each, const PictureOptions& options) {
  const double band_begin = canvas.band_time * static_cast<double>(band);
  const double begin = std::max(each.begin, band_begin);
  const double end = std::min(each.end, band_begin + canvas.band_time);
  const double sliver = 0.05 * (each.end - each.begin);  // no piece that is only a rounding error
  if (end - begin <= sliver) return {};
  const double width = std::max(0.5, (end - begin) * canvas.scale - 1);
  const double x = canvas.x(begin, band), y = canvas.y(rank, band);
  const std::string label = label_of(each.action, options.chunks);
  const Colour colour = colour_of(each.action, options.chunks);
  std::string text = fmt::format(
      "<g><title>{}: {:.4g} to {:.4g}{}</title><rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" "
      "height=\"{:.0f}\" rx=\"2\" fill=\"{}\"/>",
      label, each.begin, each.end, options.unit, x, y, width, canvas.box, colour.fill());
  if (width > 7 * static_cast<double>(label.size()))
    text += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" class=\"b\" fill=\"{}\">{}</text>",
                        x + width / 2, y + 16, colour.text(), label);
  return text + "</g>\n";
}

std::string peak_svg(const Canvas& canvas, std::size_t rank, std::size_t band, const Peak& peak) {
  if (peak.held == 0 || static_cast<std::size_t>(peak.time / canvas.band_time) != band) return {};
  const double x = canvas.x(peak.time, band), y = canvas.y(rank, band);
  return fmt::format(
      "<path d=\"M{0:.2f} {1:.2f} l-4 -7 h8 z\" class=\"p\"/><text x=\"{2:.2f}\" y=\"{3:.2f}\" "
      "class=\"p\">{4} held</text>\n",
      x + 6, y, x + 13, y - 2, peak.held);
}

std::string row_svg(const Canvas& canvas, const Timeline& timeline, std::size_t rank,
                    std::size_t band, const PictureOptions& options) {
  const Row& row = timeline.ranks[rank];
  const double y = canvas.y(rank, band);
  const double left = timeline.length - canvas.band_time * static_cast<double>(band);
  const double width = std::min(canvas.band_time, left) * canvas.scale;
  std::string text = fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.2f}\" class=\"r\">rank {}</text><rect x=\"{:.2f}\" y=\"{:.2f}\" "
      "width=\"{:.2f}\" height=\"{:.0f}\" class=\"idle\"/>\n",
      canvas.left - 8, y + 16, rank, canvas.left, y, width, canvas.box);
  for (const TimedAction& each : row) text += box_svg(canvas, rank, band, each, options);
  text += peak_svg(canvas, rank, band, peak_of(row));
  if (band + 1 == canvas.bands)
    text += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\">{:.1f} % idle</text>\n",
                        canvas.left + width + 6, y + 16, 100 * idle_part(row, timeline.length));
  return text;
}

// With several bands: a rule above each, and the time at which it begins.
std::string band_svg(const Canvas& canvas, std::size_t band, const std::string& unit) {
  if (canvas.bands == 1) return {};
  const double y = canvas.y(0, band) - 20;
  return fmt::format(
      "<path d=\"M{0:.2f} {1:.2f} h{2:.2f}\" stroke=\"#999\"/><text x=\"{3:.2f}\" y=\"{4:.2f}\" "
      "class=\"r\">{5:.4g}{6}</text>\n",
      canvas.left, y, canvas.band_time * canvas.scale, canvas.left - 8, y + 4,
      canvas.band_time * static_cast<double>(band), unit);
}

// A line of swatches with their names.
class LegendLine {
 public:
  explicit LegendLine(double y) : y_(y) {}
  void add(const std::string& fill, const std::string& name) {
    text_ += fmt::format(
        "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{2}\"/>"
        "<text x=\"{3:.0f}\" y=\"{4:.0f}\">{5}</text>",
        x_, y_ - 10, fill, x_ + 17, y_, name);
    x_ += 36 + 7.0 * static_cast<double>(name.size());
  }
  void add_peak() {
    text_ += fmt::format(
        "<path d=\"M{0:.0f} {1:.0f} l-4 -7 h8 z\" class=\"p\"/><text x=\"{2:.0f}\" y=\"{1:.0f}\">"
        "peak of the microbatches that a rank holds</text>",
        x_ + 6, y_, x_ + 17);
  }
  std::string text() const { return text_ + "\n"; }

 private:
  double x_ = 64, y_;
  std::string text_;
};

bool has_kind(const Timeline& timeline, ActionKind kind) {
  return std::ranges::any_of(timeline.ranks, [&](const Row& row) {
    return std::ranges::any_of(row,
                               [&](const TimedAction& each) { return each.action.kind == kind; });
  });
}

std::string legend_svg(const Timeline& timeline, int chunks) {
  LegendLine kinds(38);
  const auto add = [&](ActionKind kind, const char* name) {
    if (has_kind(timeline, kind)) kinds.add(colour_of({kind, 0, 0}, chunks).fill(), name);
  };
  add(ActionKind::forward, "F forward");
  add(ActionKind::evaluate, "F forward");
  add(ActionKind::backward, "B backward");
  add(ActionKind::backward_input, "I input gradient");
  add(ActionKind::backward_weight, "W weight gradient");
  kinds.add("#e4e4e4", "idle");
  LegendLine rest(57);
  if (chunks > 1) {
    rest.add(colour_of({ActionKind::forward, 0, 0}, chunks).fill(), "a: first stage of the rank");
    rest.add(colour_of({ActionKind::forward, 0, chunks - 1}, chunks).fill(),
             chunks == 2 ? "pale, b: second stage" : "paler: later stages");
  }
  if (!has_kind(timeline, ActionKind::evaluate)) rest.add_peak();
  return kinds.text() + rest.text();
}

constexpr std::size_t kWidestText = 160;

double mean_action(const Timeline& timeline) {
  double busy = 0;
  std::size_t count = 0;
  for (const Row& row : timeline.ranks)
    for (const TimedAction& each : row) busy += each.end - each.begin, ++count;
  return count > 0 ? busy / static_cast<double>(count) : 0;
}

// The time that a cell stands for: the shortest action, unless that is so short that the others
// would be too long to be seen. In a run no two take the same time, and the whole is what matters.
double text_unit(const Timeline& timeline, const PictureOptions& options, std::size_t cell) {
  const double shortest = shortest_action(timeline);
  const bool alike = 4 * shortest > mean_action(timeline);
  if (alike && options.unit.empty()) return shortest;
  return std::max(shortest, timeline.length * static_cast<double>(cell) / kWidestText);
}

struct TextScale {
  double unit;       // of time, for one cell
  std::size_t cell;  // letters
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
      "<style>text{{font-family:sans-serif;font-size:12px}} "
      ".b{{text-anchor:middle;font-size:11px}} "
      ".r{{text-anchor:end}} .p{{fill:#b00020}} .idle{{fill:#e4e4e4}} "
      ".t{{font-size:14px;font-weight:bold}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"{2:.0f}\" y=\"17\" class=\"t\">{3}</text>\n",
      canvas.width(), canvas.height(), canvas.left, escaped(options.title));
  text += legend_svg(timeline, options.chunks);
  for (std::size_t band = 0; band < canvas.bands; ++band) {
    text += band_svg(canvas, band, options.unit);
    for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank)
      text += row_svg(canvas, timeline, rank, band, options);
  }
  return text + "</svg>\n";
}

}  // namespace tessera
