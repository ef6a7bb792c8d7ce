#include "tessera/config/print.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tessera/base/files.h"
#include "tessera/config/flags/flag_table.h"
#include "tests/config/command_lines.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::kTraining;
using test::parse;

TEST(Help, ShowsEveryFlagOfTheCommandAndNoOther) {
  for (const Command command : kCommands) {
    const std::string help = help_text(command);
    for (const config::Flag& flag : config::flag_table()) {
      const std::string name = "\n  --" + std::string(flag.name);
      const bool shown =
          help.find(name + " ") != std::string::npos || help.find(name + "\n") != std::string::npos;
      EXPECT_EQ(shown, flag.commands.has(command)) << to_string(command) << " " << flag.name;
    }
  }
}

TEST(Help, OverviewNamesEveryCommand) {
  for (const Command command : kCommands)
    EXPECT_NE(overview_text().find("\n  " + std::string(to_string(command)) + " "),
              std::string::npos);
}

TEST(Help, FitsHundredColumns) {
  for (const Command command : kCommands) {
    std::istringstream lines(help_text(command));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100u) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
      for (const char c : line) EXPECT_GE(c, ' ') << line;
    }
  }
}

TEST(Help, ShowsDefaultsAndWhatIsRequired) {
  const std::string help = help_text(Command::train);
  for (const char* part : {"[default: 0.999]", "[default: learned_absolute]", "[default: 969,30,1]",
                           "highest learning rate (required)", "[default: --seq-length]",
                           "{adam,sgd", "(required, unless --load-hf gives a model)"})
    EXPECT_NE(help.find(part), std::string::npos) << part;
  EXPECT_NE(help_text(Command::evaluate).find("samples per microbatch [default: 1]"),
            std::string::npos);
}

TEST(Help, SaysWhatAFlagMeansToTheCommand) {
  const std::string tokenize = help_text(Command::tokenize);
  EXPECT_NE(tokenize.find("- is standard input"), std::string::npos) << tokenize;
  EXPECT_EQ(tokenize.find(".idx"), std::string::npos) << tokenize;
  EXPECT_NE(help_text(Command::merge_data).find(".idx files of pairs"), std::string::npos);
  EXPECT_NE(help_text(Command::preprocess).find(".gz and .zst"), std::string::npos);
  const std::string train = help_text(Command::train_tokenizer);
  for (const char* part : {"the tokenizer.json to write", "size of the vocabulary"})
    EXPECT_NE(train.find(part), std::string::npos) << part;
}

TEST(Help, OfInspectSaysWhichFlagsOfTrainItTakes) {
  const std::string note = "Other flags of tessera train are\nrefused, but for --mesh";
  EXPECT_NE(help_text(Command::inspect).find(note), std::string::npos);
  EXPECT_EQ(help_text(Command::train).find(note), std::string::npos);
}

// Prints, reads the text as a configuration file, and expects the same settings and text.
void expect_round_trip(std::string_view command, const std::vector<std::string>& args) {
  SCOPED_TRACE(args.empty() ? "" : args.back());
  ParsedCommand first = parse_command(command, args);
  resolve(first.options);
  const std::string text = print_config(first);
  const test::TempFolder folder;
  write_file_atomically(folder / "run.yaml", text);
  ParsedCommand second =
      parse("" + std::string(command), "--config " + (folder / "run.yaml").string());
  resolve(second.options);
  second.config = first.config;
  EXPECT_EQ(static_cast<const Settings&>(first), static_cast<const Settings&>(second)) << text;
  EXPECT_EQ(text, print_config(second));
}

TEST(PrintConfig, RoundTripsTrainings) {
  for (const char* line :
       {"",
        "--swiglu --normalization RMSNorm --untie-embeddings-and-output-weights",
        "--group-query-attention --num-query-groups 2",
        "--group-query-attention",
        "--group-query-attention --num-query-groups 8",
        "--disable-bias-linear",
        "--disable-bias-linear --add-qkv-bias",
        "--disable-bias-linear --add-attention-output-bias --add-mlp-bias",
        "--position-embedding-type rope --rotary-base 1e6 --rotary-percent 0.5",
        "--position-embedding-type rope --use-rope-scaling --rope-high-freq-factor 5",
        "--position-embedding-type rope --rope-scaling-type yarn --rope-attention-factor 1.3",
        "--position-embedding-type rope --rope-scaling-type linear --rope-scaling-factor 2",
        "--window-size 15,0 --window-first-layer 1",
        "--window-size -1,0",
        "--window-size 15,0 --window-attn-skip-freq 2 --position-embedding-type rope "
        "--rope-local-base 100 --no-rope-freq 4 --rotary-interleaved",
        "--geglu --apply-layernorm-1p --norm-placement before_and_after --normalization RMSNorm",
        "--squared-relu --no-norm-bias --parallel-block one_norm",
        "--quick-geglu --parallel-block two_norms --qk-layernorm",
        "--activation-function gated_relu --qk-norm-type whole_width --norm-placement after",
        "--softmax-scale 0.3 --attention-logit-softcap 50 --output-logit-softcap 30.5",
        "--embedding-scale 48.24937810560445 --residual-scale 0.22 --logit-scale 0.0625",
        "--multi-latent-attention --position-embedding-type rope --q-lora-rank 24 --kv-lora-rank "
        "16 "
        "--qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 6 --qk-layernorm",
        "--multi-latent-attention --position-embedding-type rope --rope-scaling-type yarn "
        "--rotary-scaling-factor 40 --mscale 0.707 --mscale-all-dim 0.707",
        "--mtp-num-layers 2 --mtp-loss-scaling-factor 0.3 --position-embedding-type rope",
        "--bf16",
        "--params-dtype f64",
        "--recompute-activations",
        "--recompute-granularity full --recompute-method block --recompute-num-layers 2",
        "--optimizer sgd --sgd-momentum 0.5",
        "--lr-warmup-fraction 0.3333333333333333",
        "--lr-warmup-iters 7 --lr-warmup-init 1e-7 --min-lr 1e-5",
        "--lr-decay-style WSD --lr-wsd-decay-iters 10 --lr-wsd-decay-style minus_sqrt",
        "--save out --save-interval 5 --no-save-optim --load in --finetune",
        "--load in --load-hf hf --exit-on-missing-checkpoint --no-load-optim",
        "--vocab-size 5000",
        "--tokenizer-type NullTokenizer --vocab-size 5000",
        "--seed 4294967295 --exit-interval 5 --metrics-file m --dump-step d --threads 3",
        "--profile --profile-step-start 3 --profile-step-end 4 --profile-file p --profile-ranks 0",
        "--calculate-per-token-loss --log-throughput --eod-mask-loss",
        "--reset-position-ids --reset-attention-mask",
        "--fim-data",
        "--fim-data --fim-rate 0 --fim-spm-rate 1 --fim-split-sample <f> --fim-fragment-rate 0.1",
        "--fim-data --fim-prefix-token a --fim-middle-token b --fim-suffix-token c",
        "--fim-data --fim-pad-token d --fim-eod-token e --fim-no-prefix f:#",
        "--tensor-model-parallel-size 2 --sequence-parallel --nproc 4 --device cuda",
        "--tensor-model-parallel-grid 2,2 --nproc 8 --launch processes",
        "--tensor-model-parallel-size 9 --tensor-model-parallel-grid (3,3) --nproc 9",
        "--expert-model-parallel-size 4 --expert-tensor-parallel-size 2 --nproc 8",
        "--expert-model-parallel-size 4 --distributed-timeout-minutes 3 --nproc 4",
        "--num-experts 4 --moe-router-topk 1 --moe-router-pre-softmax --moe-ffn-hidden-size 32",
        "--num-experts 4 --expert-tensor-parallel-size 1",
        "--num-experts 4 --moe-layer-freq 2",
        "--num-experts 4 --moe-router-score-function sigmoid --moe-router-enable-expert-bias "
        "--moe-router-bias-update-rate 0.01",
        "--num-experts 4 --moe-layer-freq ([0]*1+[1,0]*2)",
        "--num-experts 4 --moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity",
        "--num-experts 4 --moe-router-dtype fp32 --moe-per-layer-logging",
        "--num-experts 4 --moe-use-upcycling --load a",
        "--recompute-granularity full --distribute-saved-activations --nproc 2"})
    expect_round_trip("train", test::words(std::string(kTraining) + " " + line));
}

TEST(PrintConfig, RoundTripsUnusualTexts) {
  for (const char* text : {"plain", "with space", "quote\"s and 'more'", "back\\slash", "colon: #x",
                           "null", "~", "true", "[1, 2]", "größe/数据", "tab\tand\nnewline\x01\x7f",
                           "-", "- x", " spaces ", "*a", "&b", "%41", "\xef\xbb\xbf", "\xc2\x85"})
    expect_round_trip("train", {"--data-path", text, "--save", text, "--save-interval", "1"});
}

TEST(PrintConfig, RoundTripsDerivedLengths) {
  expect_round_trip("train", test::words("--micro-batch-size 4 --train-samples 1001"));
  expect_round_trip("train", {});
}

TEST(PrintConfig, RoundTripsOtherCommands) {
  expect_round_trip("generate",
                    {"--load", "a", "--prompt", "once: upon", "a \"time\"", "--top-k", "5"});
  expect_round_trip("generate", {"--load-hf", "a", "--prompt", "x", "--greedy", "--bf16"});
  expect_round_trip("evaluate", test::words("--load a --data-path p --split 1,1 --eval-iters 3"));
  expect_round_trip("evaluate",
                    test::words("--load-hf a --tokens t --output o --params-dtype f64"));
  expect_round_trip("preprocess", test::words("--input a b c --output-prefix o --json-keys x y "
                                              "--append-eod --tokenizer-type NullTokenizer "
                                              "--vocab-size 9"));
  expect_round_trip("preprocess", test::words("--input a --output-prefix o --workers 3 --on-error "
                                              "skip --save-errors --max-line-size 64MiB "
                                              "--commit-interval 1GB --overwrite"));
  expect_round_trip("merge-data", test::words("--input a b --output-prefix o --overwrite"));
  expect_round_trip("split-data", test::words("--input a --output-prefix o --partitions 7"));
  expect_round_trip("inspect",
                    test::words("--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                                "--seq-length 8 --vocab-size 1000"));
  expect_round_trip("inspect", test::words("--load a"));
}

TEST(PrintConfig, LeavesToTheLoadedModelWhatNoFlagSays) {
  const std::string text = print_config(parse("generate", "--load a --prompt x"));
  EXPECT_EQ(text.find("params-dtype"), std::string::npos);
  EXPECT_EQ(text.find("tokenizer-type"), std::string::npos);
  EXPECT_NE(
      print_config(parse("generate", "--load a --prompt x --bf16")).find("params-dtype: bf16"),
      std::string::npos);
}

TEST(PrintConfig, StoresOptionsForACheckpoint) {
  Options options =
      test::accept("train", std::string(kTraining) + " --load-hf hf --swiglu").options;
  options.model.attention_output_bias = false;  // a shape that only an import gives
  Options restored = options_from_yaml(print_config(options), "checkpoint");
  resolve(restored);
  EXPECT_EQ(restored, options);
}

}  // namespace
}  // namespace tessera
