// What the families' config.json means, for the tests of families.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "tessera/checkpoint/hf/hf_config.h"
#include "tessera/checkpoint/hf/hf_folder.h"
#include "tests/checkpoint/made_checkpoint.h"
#include "tests/support/expect_error.h"

namespace tessera::test {

inline ModelOptions folder_options(const std::string& family) {
  return HfFolder(family_data(family)).model().options;
}

/// A config of the family with more keys, given as R"("key":1)".
inline ModelOptions config_options(const std::string& family, const std::string& keys) {
  return parse_hf_config(
             fmt::format(R"({{"model_type":"{}"{}{}}})", family, keys.empty() ? "" : ",", keys),
             "x")
      .options;
}

inline void expect_config_refused(const std::string& family, const std::string& keys,
                                  std::initializer_list<const char*> parts) {
  SCOPED_TRACE(family + " " + keys);
  expect_input_error([&] { config_options(family, keys); }, parts);
}

/// The model itself comes back from its config, whatever other families could express it.
inline void expect_comes_back(const std::string& family, const ModelOptions& options) {
  EXPECT_EQ(hf_family_problem(options, family), "");
  const HfModel back = parse_hf_config(hf_config_for(options, family).dump(), "written");
  EXPECT_EQ(back.family, family);
  EXPECT_EQ(back.options, options);
}

/// Why the family cannot express the model of its folder, after a change to it.
template <class Change>
std::string changed_problem(const char* family, Change change) {
  ModelOptions options = folder_options(family);
  change(options);
  return hf_family_problem(options, family);
}

}  // namespace tessera::test
