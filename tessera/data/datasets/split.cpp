#include "tessera/data/datasets/split.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tessera/base/check.h"

namespace tessera {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::array<double, kSplits> parse_weights(std::string_view text) {
  std::array<double, kSplits> weights{};
  std::string_view rest = text;
  for (double& weight : weights) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = trim(rest.substr(0, comma));
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, weight);
    check_input(error == std::errc() && stop == end && std::isfinite(weight) && weight >= 0.0,
                "--split '{}': '{}' is not a weight; expected up to {} numbers of at least 0, with "
                "commas between",
                text, word, kSplits);
    if (comma == std::string_view::npos) return weights;
    rest.remove_prefix(comma + 1);
  }
  fail_input("--split '{}' has more than {} weights (train, validation, test)", text, kSplits);
}

}  // namespace

std::string_view to_string(Split split) {
  switch (split) {
    case Split::train: return "train";
    case Split::valid: return "valid";
    case Split::test: return "test";
  }
  fail("no split has the number {}", static_cast<int>(split));
}

std::array<SequenceRange, kSplits> split_ranges(std::string_view weights, std::int64_t sequences) {
  const std::array<double, kSplits> parsed = parse_weights(weights);
  const double sum = parsed[0] + parsed[1] + parsed[2];
  check_input(sum > 0.0 && std::isfinite(sum),
              "--split '{}': the weights add up to {}, expected a finite number above 0", weights,
              sum);
  const auto border = [&](double fraction) {
    const double exact = fraction * static_cast<double>(sequences);
    return std::min(sequences, static_cast<std::int64_t>(std::nearbyint(exact)));
  };
  std::array<SequenceRange, kSplits> ranges;
  double begin = 0.0;
  for (int i = 0; i < kSplits; ++i) {
    const double end = begin + parsed[i] / sum;
    ranges[i] = {border(begin), border(end)};
    begin = end;
  }
  return ranges;
}

}  // namespace tessera
