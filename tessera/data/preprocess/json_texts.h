// The texts in a line of JSON: an object whose value for each key asked for is a string, or an
// array of strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json.h"

namespace tessera {

/// Reads one line after the other. What it gives is good until the next line is read.
class JsonTexts {
 public:
  explicit JsonTexts(std::vector<std::string> keys)
      : keys_(std::move(keys)), texts_(keys_.size()) {}

  /// texts()[k] are those of the k-th key. InputError names `where` and what is wrong.
  void read(std::string_view line, const std::string& where);
  const std::vector<std::vector<std::string_view>>& texts() const { return texts_; }

 private:
  std::vector<std::string> keys_;
  Json object_;  // what the texts lie in
  std::vector<std::vector<std::string_view>> texts_;
};

}  // namespace tessera
