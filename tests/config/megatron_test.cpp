// Every flag of Megatron-LM is in one class, and the command line follows the class.
#include "tessera/config/megatron/megatron_flags.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tessera/base/files.h"
#include "tessera/config/flags/flag_table.h"
#include "tessera/config/flags/other_names.h"
#include "tessera/config/megatron/old_names.h"
#include "tests/config/command_lines.h"
#include "tests/support/expect_error.h"

namespace tessera::config {
namespace {

bool of_train(std::string_view name) {
  const Flag* flag = find_flag(name);
  return flag != nullptr && flag->commands.has(Command::train);
}

TEST(MegatronFlags, AreInOneClassEach) {
  std::set<std::string_view> names;
  for (const MegatronFlag& flag : megatron_flags())
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
  for (const OldName& name : old_names()) EXPECT_FALSE(names.contains(name.name)) << name.name;
  EXPECT_GT(names.size(), 600u);
}

TEST(MegatronFlags, ThatAreDoneAndNoOthersAreInTheTableOfFlags) {
  for (const MegatronFlag& flag : megatron_flags()) {
    if (flag.kind == MegatronClass::done)
      EXPECT_TRUE(of_train(flag.name)) << flag.name;
    else
      EXPECT_FALSE(of_train(flag.name)) << flag.name << ": move it to done.cpp";
  }
  for (const OldName& name : old_names()) EXPECT_FALSE(of_train(name.name)) << name.name;
}

TEST(MegatronFlags, HaveAReasonUnlessTheyAreDone) {
  for (const MegatronFlag& flag : megatron_flags()) {
    EXPECT_FALSE(flag.row->topic.empty()) << flag.name;
    EXPECT_EQ(flag.row->text.empty(), flag.kind == MegatronClass::done) << flag.name;
    const std::string_view partner = flag.row->only_with.substr(0, flag.row->only_with.find('='));
    EXPECT_TRUE(partner.empty() || find_megatron_flag(partner) != nullptr) << flag.name;
  }
}

// A word that is no flag would be a hint at nothing.
TEST(MegatronFlags, AreExplainedByFlagsThatExist) {
  const auto check = [](std::string_view text) {
    for (std::size_t at = text.find("--"); at != text.npos; at = text.find("--", at + 2)) {
      const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", at);
      const std::string name(text.substr(at + 2, end - at - 2));
      EXPECT_NE(find_flag(name), nullptr) << name;
    }
  };
  for (const MegatronFlag& flag : megatron_flags()) check(flag.row->text);
}

// One that takes any value that its row allows.
std::string use_of(const MegatronFlag& flag) {
  const std::string_view values = flag.row->values;
  const std::string value(values.empty() ? "1" : values.substr(0, values.find(' ')));
  return fmt::format("--{}{}", flag.name, flag.arity == Arity::none ? "" : " " + value);
}

TEST(MegatronFlags, ThatAreAlreadySoAreAcceptedAndNoted) {
  for (const MegatronFlag& flag : megatron_flags()) {
    if (flag.kind != MegatronClass::already_so) continue;
    SCOPED_TRACE(flag.name);
    const ParsedCommand parsed = test::train_with(use_of(flag));
    ASSERT_EQ(parsed.notes.already_so.size(), 1u);
    EXPECT_EQ(parsed.notes.already_so[0].flag, flag.name);
    EXPECT_TRUE(parsed.notes.warnings.empty());
    test::expect_input_error([&] { test::train_with(use_of(flag) + " --strict-flags"); },
                             {std::string(flag.name).c_str(), "(--strict-flags)"});
  }
}

TEST(MegatronFlags, ThatAreMissingAreRefusedByNameWithTheReason) {
  for (const MegatronFlag& flag : megatron_flags()) {
    if (flag.kind != MegatronClass::missing || !flag.row->only_with.empty()) continue;
    SCOPED_TRACE(flag.name);
    const std::string line =
        fmt::format("--{}{}", flag.name, flag.arity == Arity::none ? "" : " some");
    const std::string name = "--" + std::string(flag.name), reason(flag.row->text);
    test::expect_input_error([&] { test::train_with(line); }, {name.c_str(), reason.c_str()});
  }
}

TEST(MegatronFlags, ThatAreMissingMayHaveAValueThatChangesNothing) {
  EXPECT_EQ(test::train_with("--cpu-offloading-num-layers 0").notes.already_so.size(), 1u);
}

TEST(MegatronFlags, ShareALineOfTheLog) {
  const ParsedCommand parsed = test::train_with(
      "--use-mcore-models --manual-gc --transformer-impl local --manual-gc-interval 10");
  EXPECT_EQ(parsed.notes.already_so_line(),
            "flags of Megatron-LM without need here: --use-mcore-models, --transformer-impl (there "
            "is one implementation of each layer); --manual-gc, --manual-gc-interval (there is no "
            "garbage to collect)");
  EXPECT_EQ(test::train_with("").notes.already_so_line(), "");
}

TEST(OldNames, StandForFlagsOfTrain) {
  for (const OldName& name : old_names()) {
    const auto meaning = meaning_of(name.name, name.value.empty() ? "x" : name.value);
    ASSERT_TRUE(meaning.has_value()) << name.name;
    for (const auto& [flag, values] : *meaning) {
      EXPECT_TRUE(of_train(flag)) << name.name << ": " << flag;
      EXPECT_EQ(values.empty(), false) << name.name;
    }
  }
}

struct SameLines {
  const char* old_line;
  const char* line;
};

TEST(OldNames, MeanWhatTheFlagsMean) {
  constexpr SameLines kLines[] = {
      {"--model-parallel-size 2", "--tensor-model-parallel-size 2"},
      {"--batch-size 4", "--micro-batch-size 4"},
      {"--checkpoint-activations", "--recompute-granularity full --recompute-method uniform"},
      {"--activations-checkpoint-method block --activations-checkpoint-num-layers 2",
       "--recompute-granularity full --recompute-method block --recompute-num-layers 2"},
      {"--use-rotary-position-embeddings", "--position-embedding-type rope"},
      {"--use-rotary-position-embeddings --no-position-embedding",
       "--position-embedding-type rope"},
      {"--save a --save-retain-interval 50", "--save a --keep-last 1 --keep-every 50"},
      {"--use-torch-fsdp2", "--use-megatron-fsdp"},
      {"--bf16 --megatron-fsdp-grad-comm-dtype bf16", "--bf16 --grad-reduce-in-bf16"},
      {"--bf16 --megatron-fsdp-grad-comm-dtype fp32", "--bf16"},
      {"--position-embedding-type rope --rotary-seq-len-interpolation-factor 4",
       "--position-embedding-type rope --rope-scaling-type linear --rope-scaling-factor 4"},
      {"--multi-latent-attention --position-embedding-type rope --rotary-scaling-factor 40",
       "--multi-latent-attention --position-embedding-type rope --rope-scaling-type yarn "
       "--rope-scaling-factor 40 --rope-original-max-position 4096"},
      {"--recompute-activations --moe-layer-recompute", "--recompute-granularity selective"},
      {"--vocab-file v --merge-file m",
       "--tokenizer-type GPT2BPETokenizer --vocab-file v --merge-file m"},
      {"--tokenizer-type SFTTokenizer --tokenizer-model t",
       "--tokenizer-type HuggingFaceTokenizer --tokenizer-model t"},
  };
  for (const auto& [old_line, line] : kLines) {
    SCOPED_TRACE(old_line);
    EXPECT_EQ(test::train_with(old_line).options, test::train_with(line).options);
  }
}

// Two names of the same setting do not exclude each other.
TEST(OldNames, MayRepeatWhatAnotherFlagSays) {
  EXPECT_NO_THROW(test::train_with("--recompute-activations --recompute-granularity selective"));
  EXPECT_NO_THROW(test::train_with("--bf16 --params-dtype bf16"));
  EXPECT_NO_THROW(test::train_with("--lr-warmup-samples 0 --lr-warmup-fraction 0.01"));
}

TEST(RecomputeModules, OtherThanCoreAttentionAreKept) {
  ParsedCommand parsed =
      test::train_with("--recompute-granularity selective --recompute-modules mlp layernorm");
  ASSERT_EQ(parsed.notes.warnings.size(), 1u);
  EXPECT_NE(parsed.notes.warnings[0].find("activations of mlp, layernorm are kept"),
            std::string::npos);
  resolve(parsed.options);
  EXPECT_EQ(parsed.options.recompute.granularity, RecomputeGranularity::none);
}

// tools/megatron_page.py writes it.
TEST(MegatronPage, IsUpToDate) {
  const std::string page =
      read_text_file(fs::path(TESSERA_SOURCE_DIR) / "docs" / "megatron.md", 1 << 20);
  const std::size_t begin = page.find("## Done\n");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_TRUE(page.substr(begin) == megatron_page())
      << "run tools/megatron_page.py build/cpu/apps/tessera";
}

}  // namespace
}  // namespace tessera::config
