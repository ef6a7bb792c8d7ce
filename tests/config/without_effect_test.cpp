// Flags without effect in a run: a warning, and as if they had not been given.
#include <gtest/gtest.h>

#include <string>

#include "tessera/config/print.h"
#include "tests/config/command_lines.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

struct Warning {
  const char* line;  ///< added to a valid command line
  const char* part;  ///< of the warning
};

constexpr Warning kWarnings[] = {
    {"--moe-router-topk 1", "--moe-router-topk '1' has no effect: it belongs to --num-experts"},
    {"--split 1,1,1", "--split '1,1,1' has no effect"},
    {"--fim-rate 0.9", "has no effect: it belongs to --fim-data"},
    {"--fim-pad-token p", "has no effect: it belongs to --fim-data"},
    {"--fim-data --fim-fragment-rate 0.1", "has no effect: it belongs to --fim-split-sample"},
    {"--rotary-base 500000", "has no effect: it belongs to --position-embedding-type rope"},
    {"--use-rope-scaling", "has no effect: it belongs to --position-embedding-type rope"},
    {"--rotary-interleaved", "has no effect: it belongs to --position-embedding-type rope"},
    {"--no-rope-freq 2", "has no effect: it belongs to --position-embedding-type rope"},
    {"--position-embedding-type rope --rope-local-base 100",
     "belongs to --position-embedding-type rope with --window-size"},
    {"--window-attn-skip-freq 2", "has no effect: it belongs to --window-size"},
    {"--normalization RMSNorm --no-norm-bias", "belongs to --normalization LayerNorm"},
    {"--position-embedding-type rope --rope-scaling-factor 4", "belongs to RoPE scaling"},
    {"--position-embedding-type rope --use-rope-scaling --rope-beta-fast 4",
     "belongs to --rope-scaling-type yarn"},
    {"--lr-wsd-decay-style linear", "has no effect: it belongs to --lr-decay-style WSD"},
    {"--sgd-momentum 0.5", "has no effect: it belongs to --optimizer sgd"},
    {"--save-interval 10", "has no effect: it belongs to --save"},
    {"--finetune", "has no effect: it belongs to --load"},
    {"--profile-step-start 3", "has no effect: it belongs to --profile"},
    {"--profile-file p", "has no effect: it belongs to --profile"},
    {"--window-first-layer 1", "has no effect: it belongs to --window-size"},
    {"--recompute-method block", "has no effect: it belongs to --recompute-granularity full"},
    {"--recompute-granularity selective --recompute-num-layers 2", "has no effect"},
    {"--overlap-param-gather",
     "belongs to --use-distributed-optimizer, or --use-megatron-fsdp with"},
    {"--num-distributed-optimizer-instances 2", "belongs to --use-distributed-optimizer"},
    {"--data-parallel-sharding-strategy optim", "belongs to --use-megatron-fsdp"},
    {"--use-megatron-fsdp --ddp-bucket-size 5", "belongs to gradients that are not sharded"},
    {"--grad-reduce-in-bf16", "has no effect: it belongs to --bf16"},
    {"--exp-avg-dtype bf16", "belongs to --optimizer adam with --bf16 or --fp16"},
    {"--bf16 --optimizer sgd --exp-avg-sq-dtype bf16", "belongs to --optimizer adam"},
    {"--no-store-param-remainders", "has no effect: it belongs to --bf16"},
    {"--optimizer-cpu-offload", "has no effect: it belongs to --device cuda"},
    {"--gpu-memory-budget-gib 4", "has no effect: it belongs to --device cuda"},
    {"--distribute-saved-activations", "belongs to --recompute-granularity full"},
    {"--expert-tensor-parallel-size 2", "belongs to --expert-model-parallel-size above 1"},
    {"--loss-scale 8", "--loss-scale '8' has no effect: it belongs to --fp16"},
    {"--fp16 --loss-scale 8 --hysteresis 3", "--hysteresis '3' has no effect"},
    {"--num-query-groups 4", "has no effect: it belongs to --group-query-attention"},
    {"--sequence-parallel", "has no effect: it belongs to --tensor-model-parallel-size above 1"},
    {"--use-megatron-fsdp --data-parallel-sharding-strategy no_shard --overlap-param-gather",
     "with another strategy than no_shard"},
    {"--tokenizer-model a",
     "--tokenizer-type HuggingFaceTokenizer, SentencePieceTokenizer, GPTSentencePieceTokenizer"},
    {"--merge-file a", "--tokenizer-type GPT2BPETokenizer"},
    {"--tiktoken-pattern v1", "--tokenizer-type TikTokenizer"},
    {"--multiple-validation-sets", "belongs to --valid-data-path"},
    {"--no-data-sharding", "belongs to --dataloader-type cyclic"},
    {"--num-layers-per-virtual-pipeline-stage 1", "belongs to --pipeline-model-parallel-size"},
    {"--rotary-scaling-factor 40", "has no effect: it belongs to --multi-latent-attention"},
    {"--recompute-modules moe", "has no effect: it belongs to --recompute-granularity selective"},
    {"--fp8-amax-history-len 8",
     "--fp8-amax-history-len has no effect: it belongs to --fp8-format"},
    {"--muon-momentum 0.9", "--muon-momentum has no effect: it belongs to --optimizer=muon"},
};

// The configuration without what is only said.
std::string configuration(const ParsedCommand& parsed) { return print_config(parsed.options); }

TEST(WithoutEffect, FlagsAreWarnedAboutAndDropped) {
  for (const Warning& warning : kWarnings) {
    SCOPED_TRACE(warning.line);
    const ParsedCommand parsed = test::train_with(warning.line);
    ASSERT_EQ(parsed.notes.warnings.size(), 1u);
    EXPECT_NE(parsed.notes.warnings[0].find(warning.part), std::string::npos)
        << parsed.notes.warnings[0];
  }
}

// The last word of each line is the flag without effect, or its value.
TEST(WithoutEffect, FlagsChangeNothing) {
  const auto resolved = [](const std::string& line) {
    ParsedCommand parsed = test::train_with(line);
    resolve(parsed.options);
    return configuration(parsed);
  };
  for (const Warning& warning : kWarnings) {
    SCOPED_TRACE(warning.line);
    const std::string line = warning.line;
    EXPECT_EQ(resolved(line), resolved(line.substr(0, line.rfind("--"))));
  }
}

TEST(WithoutEffect, IsAnErrorWithStrictFlags) {
  for (const Warning& warning : kWarnings) {
    SCOPED_TRACE(warning.line);
    test::expect_input_error(
        [&] { test::train_with(std::string(warning.line) + " --strict-flags"); },
        {warning.part, "(--strict-flags)"});
  }
}

TEST(WithoutEffect, IsAnErrorOfOtherCommands) {
  test::expect_input_error(
      [] { test::parse("generate", "--load a --prompt b --greedy --top-k 5"); },
      {"--top-k '5' has no effect: it belongs to drawing"});
}

// A flag may lose its effect with another one that has none.
TEST(WithoutEffect, FollowsFromOtherFlags) {
  const ParsedCommand parsed = test::train_with("--fim-split-sample s --fim-fragment-rate 0.1");
  EXPECT_EQ(parsed.notes.warnings.size(), 2u);
  EXPECT_EQ(parsed.options.data.fim, FimOptions());
}

}  // namespace
}  // namespace tessera
