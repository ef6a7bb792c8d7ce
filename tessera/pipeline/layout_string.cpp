#include "tessera/pipeline/layout_string.h"

#include <algorithm>
#include <cctype>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr const char* kFlag = "--pipeline-model-parallel-layout";
constexpr std::size_t kLongest = 100'000;  // letters, after expansion of repeats

// Parses from left to right and expands repeats.
class Reader {
 public:
  explicit Reader(const std::string& layout) : layout_(layout) {
    for (const char c : layout)
      if (c != ',' && c != ' ') text_ += c;
  }

  std::string whole() {
    std::string read = sequence();
    if (at_ < text_.size()) fault("a ) that closes nothing");
    return read;
  }

 private:
  [[noreturn]] void fault(const std::string& what) const {
    fail_input("{} '{}': {}", kFlag, layout_, what);
  }
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  std::string sequence() {
    std::string read;
    while (at_ < text_.size() && text_[at_] != ')') {
      const std::string item = next_is('(') ? group() : letter();
      const int times = next_is('*') ? count() : 1;
      if (read.size() + item.size() * static_cast<std::size_t>(times) > kLongest)
        fault(fmt::format("more than {} letters", kLongest));
      for (int i = 0; i < times; ++i) read += item;
    }
    return read;
  }

  std::string group() {
    if (++depth_ > 16) fault("brackets inside each other, more than 16 times");
    ++at_;
    std::string inside = sequence();
    if (!next_is(')')) fault("a ( that is not closed");
    ++at_;
    --depth_;
    return inside;
  }

  std::string letter() {
    const char c = text_[at_++];
    if (c != 'E' && c != 't' && c != 'm' && c != 'L' && c != '|')
      fault(
          fmt::format("'{}' is none of E (embedding), t (layer), m (layer for multi-token "
                      "prediction), L (loss) and | (end of a stage)",
                      c));
    return std::string(1, c);
  }

  int count() {
    ++at_;
    std::string digits;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)
      digits += text_[at_++];
    if (digits.empty() || digits.size() > 5) fault("* needs a number below 100000 behind it");
    return std::stoi(digits);
  }

  const std::string& layout_;
  std::string text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<std::string> read_layout(const std::string& layout) {
  std::vector<std::string> stages(1);
  for (const char c : Reader(layout).whole())
    if (c == '|')
      stages.emplace_back();
    else
      stages.back() += c;
  return stages;
}

std::vector<std::int64_t> layers_of_layout(const std::string& layout, std::int64_t num_layers,
                                           std::int64_t mtp_layers, int stages) {
  const std::vector<std::string> read = read_layout(layout);
  check_input(std::ssize(read) == stages, "{} '{}' has {} stages, the pipeline has {}", kFlag,
              layout, read.size(), stages);
  std::string all;
  std::vector<std::int64_t> layers;
  for (const std::string& stage : read) {
    all += stage;
    layers.push_back(std::ranges::count(stage, 't'));
  }
  const auto count = std::ranges::count(all, 't');
  check_input(count == num_layers, "{} '{}' has {} layers (t), --num-layers is {}", kFlag, layout,
              count, num_layers);
  check_input(
      std::ranges::count(all, 'E') == 1 && all.front() == 'E' && read.front().starts_with('E'),
      "{} '{}': E, the embedding, must come once, at the very beginning", kFlag, layout);
  check_input(std::ranges::count(all, 'L') == 1 && read.back().ends_with('L'),
              "{} '{}': L, the loss, must come once, at the very end", kFlag, layout);
  const auto ahead = std::ranges::count(all, 'm');
  const std::string end = std::string(static_cast<std::size_t>(mtp_layers), 'm') + "L";
  check_input(ahead == 0 || (ahead == mtp_layers && read.back().ends_with(end)),
              "{} '{}': m, a layer for multi-token prediction, must come right before L, once for "
              "each of --mtp-num-layers {}",
              kFlag, layout, mtp_layers);
  return layers;
}

}  // namespace tessera
