#include "tessera/config/flags/flag_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tessera/config/flags/other_names.h"

namespace tessera::config {
namespace {

TEST(FlagTable, NamesAreUniqueAndWellFormed) {
  std::set<std::string_view> names;
  for (const Flag& flag : flag_table()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_EQ(flag.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"),
              std::string_view::npos)
        << flag.name;
    EXPECT_EQ(find_flag(flag.name), &flag);
  }
  EXPECT_EQ(find_flag("no-such-flag"), nullptr);
}

TEST(FlagTable, RowsAreComplete) {
  for (const Flag& flag : flag_table()) {
    EXPECT_FALSE(flag.help.empty()) << flag.name;
    EXPECT_FALSE(flag.commands.empty()) << flag.name;
    EXPECT_EQ(flag.arity == Arity::none, flag.placeholder.empty()) << flag.name;
    EXPECT_EQ(flag.applies == nullptr && flag.partner.empty(), flag.applies_when.empty())
        << flag.name;
    EXPECT_TRUE(flag.set && flag.get && flag.fault) << flag.name;
  }
}

// What a flag writes, it reads: the default of every option goes out as text and in again.
TEST(FlagTable, DefaultsGoOutAndInAgain) {
  const Settings defaults;
  for (const Flag& flag : flag_table()) {
    const auto values = flag.get(defaults);
    if (!values) continue;
    Settings settings;
    flag.set(settings, *values);
    EXPECT_EQ(settings, defaults) << flag.name;
  }
}

std::string default_of(std::string_view name) {
  const auto values = find_flag(name)->get(Settings{});
  return values ? values->front() : "unset";
}

TEST(FlagTable, DefaultsAreMegatrons) {
  EXPECT_EQ(default_of("position-embedding-type"), "learned_absolute");
  EXPECT_EQ(default_of("rotary-base"), "10000");
  EXPECT_EQ(default_of("rotary-percent"), "1");
  EXPECT_EQ(default_of("rope-scaling-factor"), "8");
  EXPECT_EQ(default_of("q-lora-rank"), "unset");
  EXPECT_EQ(default_of("kv-lora-rank"), "32");
  EXPECT_EQ(default_of("qk-head-dim"), "128");
  EXPECT_EQ(default_of("qk-pos-emb-head-dim"), "64");
  EXPECT_EQ(default_of("v-head-dim"), "128");
  EXPECT_EQ(default_of("mscale"), "1");
  EXPECT_EQ(default_of("mscale-all-dim"), "0");
  EXPECT_EQ(default_of("normalization"), "LayerNorm");
  EXPECT_EQ(default_of("norm-epsilon"), "1e-05");
  EXPECT_EQ(default_of("attention-dropout"), "0.1");
  EXPECT_EQ(default_of("hidden-dropout"), "0.1");
  EXPECT_EQ(default_of("init-method-std"), "0.02");
  EXPECT_EQ(default_of("optimizer"), "adam");
  EXPECT_EQ(default_of("adam-beta1"), "0.9");
  EXPECT_EQ(default_of("adam-beta2"), "0.999");
  EXPECT_EQ(default_of("adam-eps"), "1e-08");
  EXPECT_EQ(default_of("sgd-momentum"), "0.9");
  EXPECT_EQ(default_of("weight-decay"), "0.01");
  EXPECT_EQ(default_of("clip-grad"), "1");
  EXPECT_EQ(default_of("lr"), "unset");
  EXPECT_EQ(default_of("min-lr"), "0");
  EXPECT_EQ(default_of("lr-decay-style"), "linear");
  EXPECT_EQ(default_of("lr-wsd-decay-style"), "exponential");
  EXPECT_EQ(default_of("lr-warmup-iters"), "0");
  EXPECT_EQ(default_of("lr-warmup-init"), "0");
  EXPECT_EQ(default_of("seed"), "1234");
  EXPECT_EQ(default_of("eval-iters"), "100");
  EXPECT_EQ(default_of("eval-interval"), "1000");
  EXPECT_EQ(default_of("log-interval"), "100");
  EXPECT_EQ(default_of("split"), "969,30,1");
  EXPECT_EQ(default_of("num-layers"), "unset");
  EXPECT_EQ(default_of("save-interval"), "unset");
  EXPECT_EQ(default_of("tensor-model-parallel-size"), "1");
  EXPECT_EQ(default_of("sequence-parallel"), "false");
  EXPECT_EQ(default_of("distributed-timeout-minutes"), "10");
}

// The names that a hint holds, without their dashes.
std::vector<std::string> flags_in(std::string_view hint) {
  std::vector<std::string> names;
  for (std::size_t at = hint.find("--"); at != hint.npos; at = hint.find("--", at + 2)) {
    const std::size_t end = hint.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
    names.emplace_back(hint.substr(at + 2, end - at - 2));
  }
  return names;
}

TEST(OtherNames, LeadToMegatrons) {
  for (const auto& [name, hint] : other_names()) {
    const Flag* same = find_flag(name);  // of no command that a hint is for
    EXPECT_TRUE(same == nullptr || !same->commands.has(Command::train)) << name;
    EXPECT_EQ(hint_for_other_name(name), hint);
    for (const std::string& flag : flags_in(hint)) EXPECT_NE(find_flag(flag), nullptr) << flag;
  }
  EXPECT_EQ(hint_for_other_name("tp"), "did you mean --tensor-model-parallel-size?");
  EXPECT_FALSE(hint_for_other_name("frobnicate").has_value());
}

}  // namespace
}  // namespace tessera::config
