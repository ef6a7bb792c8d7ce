// Command lines that must be refused before any work starts, and what the message must say.
#include <gtest/gtest.h>

#include <string>

#include "tests/config/command_lines.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

struct Refusal {
  const char* line;  ///< added to a valid command line
  const char* part;  ///< of the message
};

void expect_refused(std::string_view command, std::string_view base, const Refusal& refusal) {
  SCOPED_TRACE(refusal.line);
  test::expect_input_error([&] { test::accept(command, std::string(base) + " " + refusal.line); },
                           {refusal.part});
}

constexpr Refusal kForms[] = {
    {"stray", "unexpected argument 'stray': --mock-data takes no further value"},
    {"--swiglu true", "unexpected argument 'true': --swiglu takes no further value"},
    {"-x", "unexpected argument '-x'"},
    {"--", "unexpected argument '--'"},
    {"--seed", "--seed needs a value (N)"},
    {"--save --finetune", "--save needs a value (FOLDER)"},
    {"--seed=", "--seed '': expected an integer"},
    {"--swiglu=maybe", "--swiglu 'maybe': expected true or false"},
    {"--nun-layers 2", "did you mean --num-layers?"},
    {"--lr-warmup 2", "unknown flag"},
    {"--frobnicate", "--frobnicate: unknown flag; tessera train --help lists all"},
    {"--fp8-format hybrid", "--fp8-format: known Megatron flag, not supported yet by Tessera: FP8"},
    {"--yaml-cfg a", "not supported yet by Tessera: use --config with a flat file"},
    {"--manual-gc yes", "unexpected argument 'yes': --manual-gc takes no further value"},
    {"--manual-gc-interval", "--manual-gc-interval needs a value (N)"},
    {"--main-params-dtype fp16",
     "--main-params-dtype 'fp16': not supported yet by Tessera: master"},
    {"--recompute-modules attention", "expected some of core_attn, moe_act"},
    {"--rope-type mrope", "--rope-type 'mrope': unknown value"},
    {"--mesh", "--mesh: a flag of tessera inspect, not of tessera train"},
    {"--prompt hello", "--prompt: a flag of tessera generate, not of tessera train"},
    {"--save=", "--save '': expected text, got nothing"},
    {"--save \xff", "expected UTF-8 text"},
};

constexpr Refusal kValues[] = {
    {"--activation-function mish", "expected one of gelu, gelu_exact, "},
    {"--activation-function mish", ", gated_gelu, gated_gelu_exact, "},
    {"--activation-function gated_", "--activation-function 'gated_': expected one of gelu"},
    {"--norm-placement behind", "expected one of before, after, before_and_after"},
    {"--parallel-block both", "expected one of none, one_norm, two_norms"},
    {"--no-rope-freq 1", "--no-rope-freq '1'"},
    {"--window-attn-skip-freq 1", "--window-attn-skip-freq '1'"},
    {"--softmax-scale 0", "--softmax-scale '0'"},
    {"--attention-logit-softcap -1", "--attention-logit-softcap '-1'"},
    {"--output-logit-softcap inf", "--output-logit-softcap 'inf'"},
    {"--logit-scale nan", "--logit-scale 'nan'"},
    {"--seed 12x", "--seed '12x': expected an integer from 0 to 4294967295"},
    {"--seed -1", "--seed '-1'"},
    {"--seed 99999999999999999999", "--seed '99999999999999999999'"},
    {"--log-interval 0", "--log-interval '0': expected an integer from 1"},
    {"--eval-iters 1.5", "--eval-iters '1.5'"},
    {"--kv-channels 1000000", "--kv-channels '1000000': expected an integer from 1 to 16384"},
    {"--weight-decay nan", "--weight-decay 'nan': expected a number"},
    {"--clip-grad inf", "--clip-grad 'inf'"},
    {"--clip-grad -0.5", "--clip-grad '-0.5': expected a number of at least 0"},
    {"--adam-beta1 1", "--adam-beta1 '1': expected a number of at least 0 and below 1"},
    {"--adam-eps 0", "--adam-eps '0': expected a number above 0"},
    {"--min-lr 1e999", "--min-lr '1e999'"},
    {"--hidden-dropout 1.0", "--hidden-dropout '1.0': expected a number of at least 0 and below 1"},
    {"--attention-dropout -0.1", "--attention-dropout '-0.1'"},
    {"--init-method-std 0", "--init-method-std '0'"},
    {"--norm-epsilon 0", "--norm-epsilon '0'"},
    {"--optimizer unknown", "--optimizer 'unknown': expected one of adam, sgd"},
    {"--normalization rmsnorm", "expected one of LayerNorm, RMSNorm"},
    {"--position-embedding-type alibi", "expected one of learned_absolute, rope, none"},
    {"--position-embedding-type mrope", "known value of Megatron-LM, not supported yet"},
    {"--optimizer muon", "known value of Megatron-LM, not supported yet by Tessera: Muon"},
    {"--lr-decay-style wsd", "expected one of constant, linear, cosine, inverse-square-root, WSD"},
    {"--params-dtype fp8", "expected one of f64, f32, bf16, f16"},
    {"--params-dtype i32", "expected one of f64, f32, bf16, f16"},
    {"--device gpu", "expected one of cpu, cuda"},
    {"--tokenizer-type BertWordPiece", "expected one of ByteTokenizer, NullTokenizer"},
    {"--window-size 128", "--window-size '128': expected LEFT,RIGHT"},
    {"--window-size 128,128", "the right side must be 0"},
    {"--recompute-granularity partial", "expected one of none, selective, full"},
    {"--threads 100000", "--threads '100000'"},
    {"--fim-data --fim-rate 1.5",
     "--fim-rate '1.5': expected a number of at least 0 and at most 1"},
    {"--fim-data --fim-spm-rate -0.1", "--fim-spm-rate '-0.1'"},
    {"--fim-data --fim-split-sample s --fim-fragment-rate nan", "--fim-fragment-rate 'nan'"},
    {"--nproc 0", "--nproc '0': expected an integer from 1 to 1048576"},
    {"--nproc many", "--nproc 'many': expected an integer from 1 to"},
    {"--launch ssh", "--launch 'ssh': expected one of threads, processes"},
    {"--distributed-timeout-minutes 0", "'0': expected an integer from 1 to 10080"},
    {"--profile --profile-step-start -1", "--profile-step-start '-1': expected an integer from 0"},
    {"--profile --profile-step-end 0", "--profile-step-end '0': expected an integer from 1"},
    {"--profile --profile-ranks first", "--profile-ranks 'first': expected an integer from 0"},
};

constexpr Refusal kOtherPrograms[] = {
    {"--tp 2", "--tp: unknown flag (did you mean --tensor-model-parallel-size?)"},
    {"-tp 2", "two dashes (did you mean --tensor-model-parallel-size?)"},
    {"--tensor_parallel_size 2", "(did you mean --tensor-model-parallel-size?)"},
    {"--pp 2", "(did you mean --pipeline-model-parallel-size?)"},
    {"--pipeline-parallel-size 2", "(did you mean --pipeline-model-parallel-size?)"},
    {"--cp=2", "(did you mean --context-parallel-size?)"},
    {"--ep 2", "(did you mean --expert-model-parallel-size?)"},
    {"--dp 2", "the data-parallel size has no flag"},
    {"--zero 1", "did you mean --use-distributed-optimizer (ZeRO-1)"},
    {"--zero-stage 3", "or --use-megatron-fsdp with --data-parallel-sharding-strategy"},
};

constexpr Refusal kTogether[] = {
    {"--train-samples 100", "--train-iters and --train-samples exclude each other"},
    {"--data-path p", "--data-path and --mock-data exclude each other"},
    {"--bf16 --fp16", "--bf16 and --fp16 exclude each other"},
    {"--bf16 --params-dtype f32", "--params-dtype and --bf16 exclude each other"},
    {"--no-position-embedding", "which have no table of positions"},
    {"--lr-decay-iters 10 --lr-decay-samples 80", "exclude each other (decay)"},
    {"--lr-warmup-iters 5 --lr-warmup-samples 8", "exclude each other (warmup)"},
    {"--lr-warmup-iters 5 --lr-warmup-fraction 0.1", "exclude each other (warmup)"},
    {"--recompute-activations --recompute-granularity full", "exclude each other (recompute)"},
    {"--fp16 --initial-loss-scale 0", "--initial-loss-scale"},
    {"--fp16 --loss-scale-window 0", "--loss-scale-window"},
    {"--context-parallel-size 2 --cp-comm-type ring",
     "expected p2p,all_gather,a2a,a2a+p2p, got 'ring'"},
    {"--swiglu --geglu", "--swiglu and --geglu exclude each other (activation)"},
    {"--activation-function relu --squared-relu", "exclude each other (activation)"},
    {"--qk-layernorm --qk-norm-type whole_width", "exclude each other (qk norm)"},
    {"--use-distributed-optimizer --use-megatron-fsdp --data-parallel-sharding-strategy no_shard",
     "no_shard shards nothing: drop one of them"},
    {"--dump-step d --freeze-parameters output.weight", "frozen parameters have none"},
};

constexpr Refusal kRules[] = {
    {"--kv-channels 7 --position-embedding-type rope", "RoPE rotates pairs"},
    {"--position-embedding-type rope --rotary-percent 0.1", "of a head of 8 is 0"},
    {"--group-query-attention --num-query-groups 3", "8 is not a multiple of --num-query-groups 3"},
    {"--qk-layernorm", "set --normalization RMSNorm"},
    {"--qk-norm-type whole_width", "set --normalization RMSNorm"},
    {"--window-size 7,0 --window-first-layer 5", "--window-first-layer 5 is beyond --num-layers 4"},
    {"--window-size 7,0 --window-attn-skip-freq 5",
     "--window-attn-skip-freq 5 has no effect: there are only 4 layers"},
    {"--position-embedding-type rope --no-rope-freq 5",
     "--no-rope-freq 5 has no effect: there are only 4 layers"},
    {"--parallel-block one_norm --norm-placement after",
     "--parallel-block one_norm has norms of the layer's input only, but --norm-placement is "
     "after"},
    {"--position-embedding-type rope --use-rope-scaling --rope-low-freq-factor 5",
     "--rope-high-freq-factor 4 must not be below --rope-low-freq-factor 5"},
    {"--position-embedding-type rope --rope-scaling-type yarn --rope-beta-slow 64",
     "--rope-beta-fast 32 must be above --rope-beta-slow 64"},
    {"--max-position-embeddings 16", "--seq-length 32 is more than --max-position-embeddings 16"},
    {"--max-position-embeddings 16 --position-embedding-type rope",
     "--seq-length 32 is more than --max-position-embeddings 16"},
    {"--padded-vocab-size 100", "the tokenizer has 257 tokens"},
    {"--vocab-size 100", "--vocab-size 100 is less than the 257 tokens of ByteTokenizer"},
    {"--tokenizer-type NullTokenizer", "NullTokenizer needs --vocab-size"},
    {"--tokenizer-type GPT2BPETokenizer --vocab-file a", "--merge-file (merges.txt)"},
    {"--tokenizer-type BertWordPieceLowerCase", "needs --vocab-file (vocab.txt)"},
    {"--tokenizer-type BertWordPieceCase --tokenizer-model a", "needs --vocab-file (vocab.txt)"},
    {"--tokenizer-type MultimodalTokenizer --tokenizer-model a",
     "images are not there; for text alone use HuggingFaceTokenizer"},
    {"--tokenizer-type NullMultimodalTokenizer --vocab-size 9", "for text alone use NullTokenizer"},
    {"--tokenizer-type HuggingFaceTokenizer", "needs --tokenizer-model"},
    {"--tokenizer-type SentencePieceTokenizer", "needs --tokenizer-model"},
    {"--tokenizer-type TikTokenizer --tokenizer-model a --tiktoken-num-special-tokens 1 "
     "--tiktoken-special-tokens a b",
     "--tiktoken-special-tokens has 2 texts"},
    {"--tokenizer-type TikTokenizer --tokenizer-model a --tiktoken-special-tokens a a",
     "has 'a' twice"},
    {"--tokenizer-type NullTokenizer --vocab-size 100 --padded-vocab-size 100",
     "the tokenizer has 101 tokens (end-of-document included)"},
    {"--min-lr 0.1", "--min-lr 0.1 is above --lr 0.001"},
    {"--lr-warmup-init 0.1", "--lr-warmup-init 0.1 is above --lr 0.001"},
    {"--lr-warmup-iters 100", "--lr-warmup-iters 100 must be below --lr-decay-iters 100"},
    {"--lr-decay-iters 10 --lr-warmup-iters 10", "must be below --lr-decay-iters 10"},
    {"--lr-decay-style WSD", "--lr-decay-style WSD needs --lr-wsd-decay-iters or -samples"},
    {"--lr-decay-style WSD --lr-wsd-decay-iters 95 --lr-warmup-iters 10", "together are more than"},
    {"--recompute-granularity full --recompute-method block",
     "--recompute-method block needs --recompute-num-layers"},
    {"--recompute-granularity full --recompute-method block --recompute-num-layers 5",
     "--recompute-num-layers 5 is more than --num-layers 4"},
    {"--profile --profile-step-start 12", "--profile-step-end 12 must be above"},
    {"--profile --profile-step-start 5 --profile-step-end 5", "must be above --profile-step-start"},
    {"--profile --profile-step-start 100 --profile-step-end 102",
     "--profile-step-start 100 is never passed: the training has 100 iterations"},
    {"--profile --profile-ranks 0 1", "--profile-ranks 1: this run has one rank, 0"},
    {"--profile --profile-ranks 0 0", "--profile-ranks has 0 twice"},
    {"--fim-data", "--mock-data has none: give --data-path"},
    {"--sft --fim-data", "--fim-data rearranges texts, not the conversations of --sft"},
    {"--sft", "--mock-data has no conversations for --sft"},
    {"--device cuda", "CUDA"},
    {"--device cuda --kv-channels 264",
     "takes heads of up to 256 channels, but they have 264: make them smaller (--kv-channels)"},
    {"--device cuda --multi-latent-attention --position-embedding-type rope --qk-layernorm "
     "--v-head-dim 320",
     "have 320: make them smaller (--qk-head-dim + --qk-pos-emb-head-dim, --v-head-dim)"},
    {"--decoupled-lr 1e-3 --decoupled-min-lr 1e-2", "--decoupled-min-lr 0.01 is above"},
    {"--lr 1 --decoupled-lr 1e-3 --min-lr 1e-2", "--min-lr 0.01 is above --decoupled-lr 0.001"},
    {"--lr 1 --decoupled-lr 1e-3 --lr-warmup-init 1e-2", "--lr-warmup-init 0.01 is above --decoup"},
    {"--weight-decay-incr-style linear --start-weight-decay 0.1",
     "--start-weight-decay 0.1 is above"},
    {"--eval-global-batch-size 3", "--eval-global-batch-size 3 is not a multiple of"},
    {"--step-batch-size-schedule 0:4 64:9",
     "is not the largest size of --step-batch-size-schedule"},
    {"--step-batch-size-schedule 0:4,64:8", "'4,64:8' in '0:4,64:8' is no batch size"},
    {"--step-batch-size-schedule 640:4 1K:8", "the first step begins at 0 tokens"},
    {"--step-batch-size-schedule 0:4 x:8", "'x' in 'x:8' is no number of tokens"},
    {"--step-batch-size-schedule 0:4 0:8", "every other one after the one before it"},
    {"--step-batch-size-schedule 4", "expected TOKENS:SIZE, got '4'"},
    {"--rampup-batch-size 4 2", "--rampup-batch-size has 2 values"},
    {"--rampup-batch-size 4 3 100", "is not reached from 4 in steps of 3"},
    {"--rampup-batch-size 4 2 100 --step-batch-size-schedule 0:4",
     "exclude each other (batch size)"},
    {"--outer-dp-sharding-strategy optim", "keeps whole copies"},
    {"--threads 4096", "processors: give at most "},
    {"--tensor-model-parallel-size 2", "add --nproc 2"},
};

TEST(Refusals, OfForms) {
  for (const Refusal& refusal : kForms) expect_refused("train", test::kTraining, refusal);
}

TEST(Refusals, OfValues) {
  for (const Refusal& refusal : kValues) expect_refused("train", test::kTraining, refusal);
}

TEST(Refusals, OfFlagsOfOtherPrograms) {
  for (const Refusal& refusal : kOtherPrograms) expect_refused("train", test::kTraining, refusal);
}

TEST(Refusals, OfFlagsTogether) {
  for (const Refusal& refusal : kTogether) expect_refused("train", test::kTraining, refusal);
}

TEST(Refusals, OfRulesBetweenValues) {
  for (const Refusal& refusal : kRules) expect_refused("train", test::kTraining, refusal);
}

TEST(Refusals, OfIncompleteTrainings) {
  const Refusal refusals[] = {
      {"--hidden-size 64 --num-attention-heads 8", "--num-layers is required"},
      {"--num-layers 4", "--hidden-size is required"},
      {"--num-layers 4", "--num-attention-heads is required"},
      {"--num-layers 4", "--micro-batch-size is required"},
      {"--num-layers 4", "--lr is required"},
      {"--num-layers 4", "--seq-length is required"},
      {"--num-layers 4", "one of --train-iters and --train-samples is required"},
      {"--num-layers 4", "no data: give --data-path PREFIX, or --mock-data"},
      {"--hidden-size 65 --num-attention-heads 8",
       "65 is not a multiple of --num-attention-heads 8"},
      {"--hidden-size 16 --swiglu", "--ffn-hidden-size cannot be derived from --hidden-size 16"},
      {"--micro-batch-size 3 --global-batch-size 8", "8 is not a multiple of --micro-batch-size 3"},
      {"--micro-batch-size 4 --train-samples 3", "--train-samples 3 is less than one batch"},
      {"--data-path p --split a,b", "--split 'a,b': expected up to three numbers"},
      {"--data-path p --split 1,1,1,1", "--split '1,1,1,1'"},
      {"--data-path p --split 0,0,0", "--split '0,0,0'"},
      {"--data-path p --split 1,-1", "--split '1,-1'"},
      {"--data-path p --split 1,", "--split '1,'"},
      {"--data-path p --split nan", "--split 'nan'"},
      {"--data-path p --train-data-path q", "exclude --data-path"},
      {"--valid-data-path q", "need --train-data-path"},
      {"--data-path p --data-args-path q", "exclude each other (data source)"},
      {"--data-path p --per-split-data-args-path q", "exclude each other (data source)"},
      {"--data-path p --dataloader-type external", "known value of Megatron-LM"},
      {"--data-path p --num-workers -1", "--num-workers"},
      {"--data-path p --sft --reset-position-ids", "drop --eod-mask-loss, --reset-position-ids"},
      {"--data-path p --num-workers 65", "--num-workers"},
      {"--num-layers 65536 --hidden-size 1048576 --num-attention-heads 1024", "parameters is more"},
      {"--micro-batch-size 65536 --seq-length 16777216 --num-attention-heads 8", "too large"},
      {"--train-iters 1000000000000 --micro-batch-size 65536 --seq-length 65536", "too long"},
  };
  for (const Refusal& refusal : refusals) expect_refused("train", "", refusal);
}

TEST(Refusals, OfOtherCommands) {
  expect_refused("generate", "", {"--prompt hi", "one of --load FOLDER"});
  expect_refused("generate", "", {"--prompt hi --load a --load-hf b", "one of --load FOLDER"});
  expect_refused("generate", "--load a", {"", "--prompt is required"});
  expect_refused("generate", "--load a --prompt hi", {"--top-p 0", "--top-p '0'"});
  expect_refused("generate", "--load a --prompt hi", {"--temperature 0", "--temperature '0'"});
  for (const char* command : {"generate", "evaluate"})
    for (const char* part : {"--context-parallel-size: a flag of tessera train",
                             ": a checkpoint of any layout can be loaded; split the model by "
                             "--tensor-model-parallel-size"})
      expect_refused(command, "--load a", {"--context-parallel-size 2", part});
  expect_refused("generate", "--load a --prompt hi",
                 {"--greedy --top-k 5", "belongs to drawing (without --greedy)"});
  expect_refused("generate", "--load a --prompt hi", {"--num-layers 5", "not of tessera generate"});
  expect_refused("generate", "--load a --prompt hi", {"--device cuda", "CUDA"});
  expect_refused("evaluate", "--load a", {"", "nothing to evaluate"});
  expect_refused("evaluate", "", {"--mock-data", "one of --load FOLDER"});
  expect_refused("evaluate", "--load a", {"--mock-data --tokens t", "exclude each other"});
  expect_refused("evaluate", "--load a", {"--mock-data --eval-iters 0", "evaluates nothing"});
  expect_refused("evaluate", "--load a", {"--mock-data --fim-data", "--fim-data=false"});
  expect_refused("preprocess", "--input a", {"", "--output-prefix is required"});
  expect_refused("preprocess", "--output-prefix a", {"", "--input is required"});
  expect_refused("preprocess", "--input a --output-prefix b", {"--json-keys x y x", "'x' twice"});
  expect_refused("preprocess", "--input a --output-prefix b",
                 {"--save-errors", "no effect: it belongs to --on-error skip"});
  expect_refused("preprocess", "--input a --output-prefix b",
                 {"--on-error ignore", "expected one of fail, skip"});
  expect_refused("preprocess", "--input a --output-prefix b", {"--workers -1", "--workers"});
  expect_refused("preprocess", "--input a --output-prefix b",
                 {"--vocab-size 300", "--vocab-size has no effect here"});
  expect_refused("tokenize", "--input a", {"--vocab-size 300", "--vocab-size has no effect here"});
  for (const char* flag : {"--append-eod", "--json-keys text"})
    expect_refused("preprocess", "--input a --output-prefix b --chat-template chatml",
                   {flag, "texts (without --chat-template)"});
  expect_refused("preprocess", "--input a --output-prefix b --chat-template chatml",
                 {"--tokenizer-type NullTokenizer --vocab-size 9", "tokenizer of texts"});
  expect_refused("preprocess", "--input a --output-prefix b",
                 {"--max-line-size 2GiB", "--max-line-size"});
  expect_refused("preprocess", "--input a --output-prefix b", {"--partitions 2", "--partitions"});
  expect_refused("merge-data", "--input a b", {"", "--output-prefix is required"});
  expect_refused("merge-data", "--input a b --output-prefix c", {"--append-eod", "--append-eod"});
  expect_refused("split-data", "--input a --output-prefix c", {"", "--partitions is required"});
  expect_refused("split-data", "--input a b --output-prefix c",
                 {"--partitions 2", "only one can be split at a time"});
  expect_refused("preprocess", "--input a --output-prefix b",
                 {"--tokenizer-type NullTokenizer", "needs --vocab-size"});
  expect_refused("train-tokenizer", "--input a --vocab-size 300", {"", "--output is required"});
  expect_refused("train-tokenizer", "--input a --output b", {"--vocab-size 256", "is too small"});
  expect_refused("train-tokenizer", "--input a --output b --vocab-size 300",
                 {"--special-tokens <a> <b> <a>", "'<a>' twice"});
  expect_refused("inspect", "", {"", "give the model in one way"});
  expect_refused("inspect", "--load a", {"--num-layers 5", "give the model in one way"});
  expect_refused("inspect", "--load a", {"--device cuda", "CUDA"});
  expect_refused("inspect", "--load a",
                 {"--lr 1", "a flag of tessera train, not of tessera inspect"});
  expect_refused("tran", "", {"", "unknown command 'tran' (did you mean train?)"});
  expect_refused("", "",
                 {"",
                  "expected train, preprocess, merge-data, split-data, tokenize, train-tokenizer, "
                  "generate, evaluate, inspect or convert"});
}

TEST(Refusals, ListEveryBrokenRule) {
  test::expect_input_error(
      [] {
        test::accept("train", std::string(test::kTraining) +
                                  " --min-lr 1 --nproc 3 --tensor-model-parallel-size 2");
      },
      {"2 problems", "--min-lr 1 is above", "--nproc 3 is not a multiple of 2"});
}

}  // namespace
}  // namespace tessera
