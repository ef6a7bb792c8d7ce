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
    {"--num-layers 2", "--num-layers is given twice: '4' and '2'"},
    {"--num_layers 2", "--num-layers is given twice"},
    {"--mock-data", "--mock-data is given twice"},
    {"--swiglu=maybe", "--swiglu 'maybe': expected true or false"},
    {"--nun-layers 2", "did you mean --num-layers?"},
    {"--lr-warmup 2", "unknown flag"},
    {"--frobnicate", "--frobnicate: unknown flag; tessera train --help lists all"},
    {"--moe-permute-fusion",
     "--moe-permute-fusion: known Megatron flag, not supported yet by Tessera"},
    {"--moe-router-topk 1", "--moe-router-topk '1' has no effect: it belongs to --num-experts"},
    {"--lr-decay-samples 8", "not supported yet by Tessera: use --lr-decay-iters"},
    {"--override-opt_param-scheduler", "known Megatron flag"},
    {"--model-parallel-size 2", "not supported yet by Tessera: use --tensor-model-parallel-size"},
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
    {"--position-embedding-type mrope", "expected one of learned_absolute, rope, none"},
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
    {"--bf16 --params-dtype bf16", "--params-dtype and --bf16 exclude each other"},
    {"--lr-warmup-iters 5 --lr-warmup-fraction 0.1", "exclude each other (warmup)"},
    {"--recompute-activations --recompute-granularity selective", "exclude each other (recompute)"},
    {"--loss-scale 8", "--loss-scale"},
    {"--fp16 --loss-scale 8 --hysteresis 3", "--hysteresis"},
    {"--fp16 --initial-loss-scale 0", "--initial-loss-scale"},
    {"--fp16 --loss-scale-window 0", "--loss-scale-window"},
    {"--num-query-groups 4", "--num-query-groups needs --group-query-attention"},
    {"--split 1,1,1", "--split '1,1,1' has no effect"},
    {"--fim-rate 0.9", "has no effect: it belongs to --fim-data"},
    {"--fim-pad-token p", "has no effect: it belongs to --fim-data"},
    {"--fim-data --fim-fragment-rate 0.1", "has no effect: it belongs to --fim-split-sample"},
    {"--cp-comm-type a2a", "has no effect: it belongs to --context-parallel-size above 1"},
    {"--hierarchical-context-parallel-sizes 2 2",
     "has no effect: it belongs to --cp-comm-type a2a+p2p"},
    {"--context-parallel-size 2 --cp-comm-type ring",
     "expected p2p,all_gather,a2a,a2a+p2p, got 'ring'"},
    {"--rotary-base 500000", "has no effect: it belongs to --position-embedding-type rope"},
    {"--use-rope-scaling", "has no effect: it belongs to --position-embedding-type rope"},
    {"--rotary-interleaved", "has no effect: it belongs to --position-embedding-type rope"},
    {"--no-rope-freq 2", "has no effect: it belongs to --position-embedding-type rope"},
    {"--position-embedding-type rope --rope-local-base 100",
     "belongs to --position-embedding-type rope with --window-size"},
    {"--window-attn-skip-freq 2", "has no effect: it belongs to --window-size"},
    {"--normalization RMSNorm --no-norm-bias", "belongs to --normalization LayerNorm"},
    {"--swiglu --geglu", "--swiglu and --geglu exclude each other (activation)"},
    {"--activation-function relu --squared-relu", "exclude each other (activation)"},
    {"--qk-layernorm --qk-norm-type whole_width", "exclude each other (qk norm)"},
    {"--position-embedding-type rope --rope-scaling-factor 4", "belongs to RoPE scaling"},
    {"--position-embedding-type rope --use-rope-scaling --rope-beta-fast 4",
     "belongs to --rope-scaling-type yarn"},
    {"--lr-wsd-decay-style linear", "has no effect: it belongs to --lr-decay-style WSD"},
    {"--sgd-momentum 0.5", "has no effect: it belongs to --optimizer sgd"},
    {"--save-interval 10", "has no effect: it belongs to --save"},
    {"--finetune", "has no effect: it belongs to --load"},
    {"--profile-step-start 3", "has no effect: it belongs to --profile"},
    {"--profile-file p", "has no effect: it belongs to --profile"},
    {"--deterministic-mode", "belongs to --device cuda (results on a CPU are always reproducible)"},
    {"--window-first-layer 1", "has no effect: it belongs to --window-size"},
    {"--recompute-method block", "has no effect: it belongs to --recompute-granularity full"},
    {"--recompute-granularity selective --recompute-num-layers 2", "has no effect"},
    {"--overlap-param-gather",
     "belongs to --use-distributed-optimizer, or --use-megatron-fsdp with"},
    {"--num-distributed-optimizer-instances 2", "belongs to --use-distributed-optimizer"},
    {"--data-parallel-sharding-strategy optim", "belongs to --use-megatron-fsdp"},
    {"--use-megatron-fsdp --data-parallel-sharding-strategy no_shard --overlap-param-gather",
     "with another strategy than no_shard"},
    {"--use-distributed-optimizer --use-megatron-fsdp --data-parallel-sharding-strategy no_shard",
     "no_shard shards nothing: drop one of them"},
    {"--dump-step d --freeze-parameters output.weight", "frozen parameters have none"},
    {"--use-megatron-fsdp --ddp-bucket-size 5", "belongs to gradients that are not sharded"},
    {"--grad-reduce-in-bf16", "has no effect: it belongs to --bf16"},
    {"--exp-avg-dtype bf16", "belongs to --optimizer adam with --bf16 or --fp16"},
    {"--bf16 --optimizer sgd --exp-avg-sq-dtype bf16", "belongs to --optimizer adam"},
    {"--no-store-param-remainders", "has no effect: it belongs to --bf16"},
    {"--optimizer-cpu-offload", "has no effect: it belongs to --device cuda"},
    {"--gpu-memory-budget-gib 4", "has no effect: it belongs to --device cuda"},
    {"--use-precision-aware-optimizer", "work without it; drop the flag"},
    {"--distribute-saved-activations", "belongs to --recompute-granularity full"},
    {"--expert-tensor-parallel-size 2", "belongs to --expert-model-parallel-size above 1"},
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
    {"--position-embedding-type rope --use-rope-scaling --rope-low-freq-factor 4",
     "--rope-high-freq-factor 4 must be above --rope-low-freq-factor 4"},
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
    {"--tokenizer-type BertWordPieceCase --vocab-file a --merge-file b",
     "--tokenizer-type GPT2BPETokenizer"},
    {"--tokenizer-type BertWordPieceCase --tokenizer-model a",
     "--tokenizer-type HuggingFaceTokenizer"},
    {"--tokenizer-type SFTTokenizer --tokenizer-model a",
     "preprocess --chat-template NAME, with --tokenizer-type HuggingFaceTokenizer"},
    {"--tokenizer-type MultimodalTokenizer --tokenizer-model a",
     "for text alone use HuggingFaceTokenizer"},
    {"--tokenizer-type NullMultimodalTokenizer --vocab-size 9", "for text alone use NullTokenizer"},
    {"--tokenizer-type HuggingFaceTokenizer", "needs --tokenizer-model"},
    {"--tokenizer-type SentencePieceTokenizer", "needs --tokenizer-model"},
    {"--tokenizer-type TikTokenizer --tokenizer-model a --tiktoken-num-special-tokens 1 "
     "--tiktoken-special-tokens a b",
     "--tiktoken-special-tokens has 2 texts"},
    {"--tokenizer-type TikTokenizer --tokenizer-model a --tiktoken-special-tokens a a",
     "has 'a' twice"},
    {"--tokenizer-model a",
     "--tokenizer-type HuggingFaceTokenizer, SentencePieceTokenizer, GPTSentencePieceTokenizer"},
    {"--merge-file a", "--tokenizer-type GPT2BPETokenizer"},
    {"--tiktoken-pattern v1", "--tokenizer-type TikTokenizer"},
    {"--tokenizer-type NullTokenizer --vocab-size 100 --padded-vocab-size 100",
     "the tokenizer has 101 tokens (end-of-document included)"},
    {"--min-lr 0.1", "--min-lr 0.1 is above --lr 0.001"},
    {"--lr-warmup-init 0.1", "--lr-warmup-init 0.1 is above --lr 0.001"},
    {"--lr-warmup-iters 100", "--lr-warmup-iters 100 must be below --lr-decay-iters 100"},
    {"--lr-decay-iters 10 --lr-warmup-iters 10", "must be below --lr-decay-iters 10"},
    {"--lr-decay-style WSD", "--lr-decay-style WSD needs --lr-wsd-decay-iters"},
    {"--lr-decay-style WSD --lr-wsd-decay-iters 95 --lr-warmup-iters 10", "together are more than"},
    {"--save out", "--save needs --save-interval"},
    {"--recompute-granularity full --recompute-method block",
     "--recompute-method block needs --recompute-num-layers"},
    {"--recompute-granularity full --recompute-method block --recompute-num-layers 5",
     "--recompute-num-layers 5 is more than --num-layers 4"},
    {"--profile --profile-step-start 12", "--profile-step-end 12 must be above"},
    {"--profile --profile-step-start 5 --profile-step-end 5", "must be above --profile-step-start"},
    {"--profile --profile-step-start 100 --profile-step-end 102",
     "--profile-step-start 100 is never passed: the training has 100 iterations"},
    {"--profile --profile-ranks 0 1", "--profile-ranks 1: this run has one rank, 0"},
    {"--profile --profile-ranks 0 --profile-ranks 0", "--profile-ranks has 0 twice"},
    {"--fim-data", "--mock-data has none: give --data-path"},
    {"--sft --fim-data", "--fim-data rearranges texts, not the conversations of --sft"},
    {"--sft", "--mock-data has no conversations for --sft"},
    {"--device cuda", "CUDA"},
    {"--device cuda --kv-channels 264",
     "takes heads of up to 256 channels, but they have 264: make them smaller (--kv-channels)"},
    {"--device cuda --multi-latent-attention --position-embedding-type rope --qk-layernorm "
     "--v-head-dim 320",
     "have 320: make them smaller (--qk-head-dim + --qk-pos-emb-head-dim, --v-head-dim)"},
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
      {"--train-data-path a --split 1,1,1", "--split '1,1,1' has no effect"},
      {"--data-path p --data-args-path q", "exclude each other (data source)"},
      {"--data-path p --per-split-data-args-path q", "exclude each other (data source)"},
      {"--data-path p --multiple-validation-sets", "belongs to --valid-data-path"},
      {"--data-path p --no-data-sharding", "belongs to --dataloader-type cyclic"},
      {"--data-path p --dataloader-type external", "expected one of single, cyclic"},
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
                                  " --min-lr 1 --save x --nproc 3 --tensor-model-parallel-size 2");
      },
      {"3 problems", "--min-lr 1 is above", "--save needs", "--nproc 3 is not a multiple of 2"});
}

}  // namespace
}  // namespace tessera
