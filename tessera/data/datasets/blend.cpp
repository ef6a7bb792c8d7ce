#include "tessera/data/datasets/blend.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/base/json.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxBlendFile = std::size_t{1} << 26;
constexpr std::size_t kMaxDatasets = 32766;  // their numbers are stored in 16 bits

std::optional<double> number_of(const std::string& word) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (word.empty() || stop != end || error != std::errc()) return std::nullopt;
  return value;
}

std::string stripped(const std::string& word) {
  const std::size_t begin = word.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return word.substr(begin, word.find_last_not_of(" \t\r\n") - begin + 1);
}

// How many of the words where weights would be are numbers.
std::size_t count_weights(std::span<const std::string> words) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < words.size(); i += 2) count += number_of(words[i]) ? 1 : 0;
  return count;
}

// Bytes of any other file must not reach the terminal as the name of a data set.
void check_printable(std::span<const std::string> words, std::string_view where) {
  const auto is_control = [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7F; };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = stripped(words[i]);
    const auto found = std::find_if(word.begin(), word.end(), is_control);
    check_input(found == word.end(),
                "{}: word {} holds the byte 0x{:02x}, which no name of data has: expected "
                "prefixes, or weights and prefixes",
                where, i + 1, found == word.end() ? 0 : static_cast<unsigned char>(*found));
  }
}

std::vector<std::string> words_of_json(const Json& list, const std::string& what) {
  check_input(list.is_array(), "{}: expected a list of prefixes, with or without weights", what);
  std::vector<std::string> words;
  for (const Json& word : list) {
    check_input(word.is_string() || word.is_number(),
                "{}: {} is neither a prefix (text) nor a weight (a number)", what, word.dump());
    words.push_back(word.is_string() ? word.get<std::string>() : word.dump());
  }
  return words;
}

}  // namespace

Blend parse_blend(std::span<const std::string> words, std::string_view where) {
  check_input(!words.empty(), "{} names no data: expected prefixes, or weights and prefixes",
              where);
  check_printable(words, where);
  const std::size_t weights = count_weights(words);
  const bool pairs = words.size() % 2 == 0;
  check_input(pairs || words.size() == 1 || !number_of(words.front()),
              "{} has {} words, of which '{:.100}' looks like a weight: expected WEIGHT PREFIX "
              "pairs, or prefixes alone (write ./{:.100} for a prefix that is a number)",
              where, words.size(), words.front(), words.front());
  check_input(weights == 0 || !pairs || weights == words.size() / 2,
              "{}: {} of {} words where weights belong are numbers: expected WEIGHT PREFIX pairs, "
              "or prefixes alone",
              where, weights, words.size() / 2);
  const bool weighted = pairs && weights > 0;
  Blend blend;
  for (std::size_t i = weighted ? 1 : 0; i < words.size(); i += weighted ? 2 : 1) {
    blend.prefixes.push_back(stripped(words[i]));
    check_input(!blend.prefixes.back().empty(), "{}: word {} is empty, expected a prefix", where,
                i + 1);
    if (!weighted) continue;
    const double weight = *number_of(words[i - 1]);
    check_input(
        std::isfinite(weight) && weight > 0,
        "{}: the weight of '{:.100}' is {:.100}, expected a number above 0: leave data out that is "
        "not to be used",
        where, blend.prefixes.back(), words[i - 1]);
    blend.weights.push_back(weight);
  }
  check_input(blend.prefixes.size() <= kMaxDatasets,
              "{} names {} data sets, at most {} can be mixed", where, blend.prefixes.size(),
              kMaxDatasets);
  return blend;
}

Blend parse_blend_text(const std::string& text, std::string_view where) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return parse_blend(words, where);
}

DataBlends parse_split_blends(const std::string& text, const std::string& name) {
  const Json json = parse_json(text, name);
  check_input(json.is_object(), "'{}': expected {{\"train\": [...], \"valid\": [...], ...}}", name);
  DataBlends blends;
  for (const auto& [key, list] : json.items()) {
    bool known = false;
    for (const Split split : {Split::train, Split::valid, Split::test}) {
      if (key != to_string(split)) continue;
      known = true;
      if (list.is_null()) continue;
      const std::string what = fmt::format("'{}', \"{}\"", name, key);
      blends.per_split[static_cast<std::size_t>(split)] =
          parse_blend(words_of_json(list, what), what);
    }
    check_input(known, "'{}': \"{}\" is no split: expected train, valid and test", name, key);
  }
  return blends;
}

DataBlends blends_of(const DataOptions& options) {
  if (!options.per_split_data_args_path.empty())
    return parse_split_blends(read_text_file(options.per_split_data_args_path, kMaxBlendFile),
                              options.per_split_data_args_path);
  DataBlends blends;
  if (!options.data_path.empty()) blends.shared = parse_blend(options.data_path, "--data-path");
  if (!options.data_args_path.empty())
    blends.shared = parse_blend_text(read_text_file(options.data_args_path, kMaxBlendFile),
                                     fmt::format("'{}'", options.data_args_path));
  if (blends.shared) return blends;
  const auto set = [&](Split split, const std::vector<std::string>& words) {
    if (!words.empty())
      blends.per_split[static_cast<std::size_t>(split)] =
          parse_blend(words, fmt::format("--{}-data-path", to_string(split)));
  };
  set(Split::train, options.train_data_path);
  set(Split::valid, options.valid_data_path);
  set(Split::test, options.test_data_path);
  return blends;
}

}  // namespace tessera
