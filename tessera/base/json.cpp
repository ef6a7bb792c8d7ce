#include "tessera/base/json.h"

#include <set>
#include <string>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// How deep a document may nest: far beyond any real file, far below what would overflow a stack.
constexpr int kMaxDepth = 64;

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  std::vector<std::set<std::string>> keys;  // the keys seen so far in each open object
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    check_input(depth <= kMaxDepth, "{}: nested deeper than {} levels", what, kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key)
      check_input(keys.back().insert(value.get<std::string>()).second,
                  "{}: key '{}' occurs twice in one object", what, value.get<std::string>());
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::exception& error) {
    fail_input("{}: not valid JSON: {}", what, error.what());
  }
}

}  // namespace tessera
