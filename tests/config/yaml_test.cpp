#include <gtest/gtest.h>

#include <map>

#include "tessera/config/parse.h"
#include "tessera/config/yaml_reader.h"
#include "tests/support/expect_error.h"

namespace tessera::config {
namespace {

using test::expect_input_error;

std::map<std::string, std::vector<std::string>> read(std::string_view text) {
  std::map<std::string, std::vector<std::string>> all;
  for (const YamlEntry& entry : read_flat_yaml(text, "run.yaml")) all[entry.key] = entry.values;
  return all;
}

using Values = std::vector<std::string>;

TEST(FlatYaml, ReadsScalarsOfAllKinds) {
  const auto all = read(
      "---\n# comment\n\na: 1   # comment\nb: plain text\nc: \"quoted: # \\\"text\\\" \\u00e9\"\r\n"
      "d: 'it''s'\ne: http://x#y\n--f-g_h: true\n");
  EXPECT_EQ(all.at("a"), Values{"1"});
  EXPECT_EQ(all.at("b"), Values{"plain text"});
  EXPECT_EQ(all.at("c"), Values{"quoted: # \"text\" é"});
  EXPECT_EQ(all.at("d"), Values{"it's"});
  EXPECT_EQ(all.at("e"), Values{"http://x#y"});
  EXPECT_EQ(all.at("--f-g_h"), Values{"true"});
}

TEST(FlatYaml, ReadsLists) {
  const auto all = read(
      "a: [1, \"two, 2\", 'three']\nb: []\nc:\n  - x\n  # comment\n  - \"y z\"\nd:\n- 1\ne: 2\n");
  EXPECT_EQ(all.at("a"), (Values{"1", "two, 2", "three"}));
  EXPECT_EQ(all.at("b"), Values{});
  EXPECT_EQ(all.at("c"), (Values{"x", "y z"}));
  EXPECT_EQ(all.at("d"), Values{"1"});
  EXPECT_EQ(all.at("e"), Values{"2"});
}

TEST(FlatYaml, EmptyFilesSetNothing) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n"})
    EXPECT_TRUE(read(text).empty());
}

TEST(FlatYaml, RefusesOtherThanAFlatMap) {
  for (const char* text : {"just text",
                           "- a\n- b\n",
                           "[1, 2]",
                           "{a: 1}",
                           "a: {b: 1}",
                           "a:\n  b: 1\n",
                           "a: b: c",
                           "a: b:",
                           "a: [[1]]",
                           "a: [1, {b: 2}]",
                           "a:\n - [1]\n",
                           "a:\n - - 1\n",
                           "a: - 1",
                           "? a\n: b",
                           "a: ? b",
                           "a: |\n  text\n",
                           "a: >\n  text\n",
                           "a: &x 1\n",
                           "a: *x\n",
                           "a: !!int 1\n",
                           "%YAML 1.2\n---\na: 1\n",
                           "a: 1\n---\nb: 2\n",
                           "---\n---\na: 1\n",
                           "a: 1\n...\nb: 2\n",
                           "a: one\n  two\n",
                           "a: \"open\nb: 1\n",
                           "a: 'open\n",
                           "a: [1, 2\n",
                           "a: [1,, 2]",
                           "a: [1 2",
                           "a: \"x\" y",
                           "a: [1] 2",
                           "a: 1\n  - 2\n",
                           "a:1",
                           " a: 1",
                           "\ta: 1",
                           "a:\t1",
                           "a: @x",
                           "a: `x`",
                           ": 1",
                           "\"a\": 1",
                           "a: [1, 2]]",
                           "a: }",
                           "a: \"\\q\"",
                           "a: \"x\\",
                           "a:\n  -\n",
                           "a:\n  - # c\n"})
    expect_input_error([&] { read_flat_yaml(text, "run.yaml"); }, {"run.yaml"});
}

TEST(FlatYaml, NamesTheLine) {
  expect_input_error([] { read_flat_yaml("a: 1\n\nb: {c: 1}\n", "run.yaml"); }, {"run.yaml:3:"});
  expect_input_error([] { read_flat_yaml("a: 1\nb:\n", "run.yaml"); },
                     {"run.yaml:2:", "'b' has no value"});
  expect_input_error([] { read_flat_yaml("a: ~\n", "run.yaml"); }, {"'a' has no value"});
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(FlatYaml, HostileInputIsRefusedQuickly) {
  for (const std::string& text :
       {"a: " + repeated("[", 100000), "a: " + repeated("{a: ", 100000), repeated("- ", 100000),
        repeated("? ", 100000), "a: " + repeated("b: ", 100000), "a: " + repeated("!", 100000),
        "a: \"" + std::string(100000, '\\'), repeated("a: 1\n", 100000),
        "a: [1" + repeated(",1", 100000) + "]", "a:\n" + repeated("- 1\n", 100000),
        "a: [" + repeated("'", 100001), "x:\n" + repeated("- [\n", 100000), repeated("a:\n ", 9000),
        "a: &a [x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n" + repeated(" ", 100000) + "x",
        std::string("\0\1\2\3", 4), std::string("a: \0", 4), std::string("\xfe\xff\x00\x61", 4),
        std::string("a: \xff\n"), std::string(2 << 20, ' ')})
    expect_input_error([&] { read_flat_yaml(text, "run.yaml"); }, {"run.yaml"});
}

TEST(FlatYaml, LargeButFlatInputIsRead) {
  const std::string text = "a: \"" + std::string(300000, 'x') + "\"\nb: [" + repeated("1, ", 999) +
                           "1]\nc:\n" + repeated("  - y\n", 1000);
  const auto all = read(text);
  EXPECT_EQ(all.at("a").front().size(), 300000u);
  EXPECT_EQ(all.at("b").size(), 1000u);
  EXPECT_EQ(all.at("c").size(), 1000u);
}

TEST(OptionsFromYaml, ChecksTypesAndNames) {
  const auto refuse = [](const char* text, std::initializer_list<const char*> parts) {
    expect_input_error([&] { options_from_yaml(text, "run.yaml"); }, parts);
  };
  refuse("num-layers: four\n", {"run.yaml:1: num-layers 'four'", "an integer from 1"});
  refuse("swiglu: yes\n", {"run.yaml:1: swiglu 'yes'", "true or false"});
  refuse("lr: [1, 2]\n", {"lr has a list of 2 values"});
  refuse("lr: []\n", {"lr has a list of 0 values"});
  refuse("lr: 1\nlr: 2\n", {"run.yaml:2: lr is given twice, first in run.yaml:1"});
  refuse("num-layers: 1\nnum_layers: 2\n", {"num-layers is given twice"});
  refuse("num-layer: 1\n", {"run.yaml:1: 'num-layer'", "did you mean --num-layers?"});
  refuse("fp4-format: e2m1\n", {"known Megatron flag, not supported yet by Tessera"});
  refuse("config: other.yaml\n", {"config works on the command line only"});
  refuse("print-config: true\n", {"print-config works on the command line only"});
  refuse("prompt: hello\n", {"a flag of tessera generate, not of tessera train"});
  refuse("data-path: \"a\\0b\"\n", {"data-path", "NUL"});
  refuse("train-iters: 1\ntrain-samples: 2\n", {"--train-iters and --train-samples exclude"});
}

TEST(OptionsFromYaml, TakesNamesInAnySpelling) {
  const Options options =
      options_from_yaml("--num-layers: 3\nhidden_size: 64\nswiglu: true\nbf16: true\n", "x");
  EXPECT_EQ(options.model.num_layers, 3);
  EXPECT_EQ(options.model.hidden_size, 64);
  EXPECT_EQ(options.model.activation, Activation::silu);
  EXPECT_TRUE(options.model.gated_mlp);
  EXPECT_EQ(options.model.dtype, DType::bf16);
}

}  // namespace
}  // namespace tessera::config
