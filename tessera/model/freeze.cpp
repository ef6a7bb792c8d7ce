#include "tessera/model/freeze.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

bool fits(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<std::string> names_of(const Parameter& parameter) {
  std::vector<std::string> names;
  for (const ShardedTensor& tensor : parameter.tensors()) names.push_back(tensor.name);
  return names;
}

}  // namespace

void freeze(const ParameterList& parameters, const std::vector<std::string>& patterns) {
  for (Parameter* parameter : parameters) {
    const std::vector<std::string> names = names_of(*parameter);
    const auto frozen = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return std::any_of(patterns.begin(), patterns.end(),
                         [&](const std::string& pattern) { return fits(name, pattern); });
    });
    if (frozen == 0) continue;
    check_input(frozen == static_cast<std::ptrdiff_t>(names.size()),
                "--freeze-parameters names {} of the tensors {}, which are one matrix: name all of "
                "them or none",
                frozen, fmt::format("{}", fmt::join(names, ", ")));
    parameter->freeze();
  }
}

void check_frozen(const ParameterList& parameters, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const auto fits_it = [&](const Parameter* parameter) {
      const std::vector<std::string> names = names_of(*parameter);
      return std::any_of(names.begin(), names.end(),
                         [&](const std::string& name) { return fits(name, pattern); });
    };
    check_input(std::any_of(parameters.begin(), parameters.end(), fits_it),
                "--freeze-parameters '{}' fits no tensor of the model: tessera inspect prints "
                "their names",
                pattern);
  }
  check_input(std::any_of(parameters.begin(), parameters.end(),
                          [](const Parameter* parameter) { return parameter->trained(); }),
              "--freeze-parameters leaves nothing to train: name fewer tensors");
}

}  // namespace tessera
