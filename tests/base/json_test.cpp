#include "tessera/base/json.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

TEST(Json, ParsesADocument) {
  const Json json = parse_json(R"({"a": [1, 2.5, "x"], "b": {"a": null}})", "file");
  EXPECT_EQ(json["a"][0], 1);
  EXPECT_EQ(json["a"][1], 2.5);
  EXPECT_EQ(json["a"][2], "x");
  EXPECT_TRUE(json["b"]["a"].is_null());
}

TEST(Json, RefusesAKeyThatOccursTwice) {
  const auto refuse = [](const char* text) {
    test::expect_input_error([&] { parse_json(text, "config.json"); },
                             {"config.json", "'a'", "twice"});
  };
  refuse(R"({"a": 1, "a": 2})");
  refuse(R"({"x": [{"a": 1, "b": {"a": 1}, "a": 2}]})");
}

TEST(Json, TheSameKeyMayOccurInDifferentObjects) {
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "file"));
}

TEST(Json, RefusesDeepNesting) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse_json(nested(64), "file"));
  for (const std::size_t depth : {std::size_t{70}, std::size_t{1'000'000}})
    test::expect_input_error([&] { parse_json(nested(depth), "deep.json"); },
                             {"deep.json", "deeper than 64"});
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += R"({"a":)";
  test::expect_input_error([&] { parse_json(objects, "deep.json"); }, {"deeper than 64"});
}

TEST(Json, RefusesJunkAndNamesTheFile) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\" 1}", "nul", "NaN", "1e999", "{} {}",
                           "{'a': 1}", "\"\xff\xfe\"", "[1] // comment", "\"unfinished"})
    test::expect_input_error([&] { parse_json(text, "broken.json"); },
                             {"broken.json", "not valid JSON"});
  test::expect_input_error([] { parse_json("{", "broken.json"); },
                           {"broken.json: not valid JSON: parse error at line 1, column 2: "});
}

TEST(Json, ReasonsComeWithoutTheLibrarysNumbers) {
  try {
    (void)Json(5).get<std::string>();
    ADD_FAILURE() << "a number was taken for a text";
  } catch (const Json::exception& error) {
    EXPECT_EQ(reason_of(error), "type must be string, but is number");
  }
}

}  // namespace
}  // namespace tessera
