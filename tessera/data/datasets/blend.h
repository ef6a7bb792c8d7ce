// The data sets of a blend and their weights, in Megatron's notation.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/data/datasets/split.h"
#include "tessera/options/data_options.h"

namespace tessera {

/// The same prefix may come several times.
struct Blend {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  ///< of each prefix, above 0; empty: by the size of their data
};

/// Words as after --data-path: "W1 P1 W2 P2 ...", or prefixes alone. As in Megatron, an even number
/// of words has weights when every other word is a number. InputError names `where` they came from.
Blend parse_blend(std::span<const std::string> words, std::string_view where);

/// Either one blend, which --split cuts into three, or one for each split.
struct DataBlends {
  std::optional<Blend> shared;
  std::array<std::optional<Blend>, kSplits> per_split;
};

/// The words of a file, separated by space.
Blend parse_blend_text(const std::string& text, std::string_view where);
/// {"train": [words], "valid": [words], "test": [words]}, each of which may be missing.
DataBlends parse_split_blends(const std::string& json, const std::string& file);

/// The blends of the flags, or of the files that they name: --data-args-path holds the arguments of
/// --data-path; --per-split-data-args-path is JSON, {"train": [words], "valid": [words], "test":
/// [words]}.
DataBlends blends_of(const DataOptions& options);

}  // namespace tessera
