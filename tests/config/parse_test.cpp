#include "tessera/config/parse.h"

#include <gtest/gtest.h>

#include "tessera/base/files.h"
#include "tests/config/command_lines.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::expect_input_error;
using test::parse;
using test::TempFolder;

using Texts = std::vector<std::string>;

TEST(Parse, TakesValuesInBothForms) {
  const Options options = parse("train", "--num-layers 3 --lr=1e-3 --hidden_size 64").options;
  EXPECT_EQ(options.model.num_layers, 3);
  EXPECT_EQ(options.schedule.lr, 1e-3);
  EXPECT_EQ(options.model.hidden_size, 64);
}

TEST(Parse, SwitchesNeedNoValueAndCanBeTakenBack) {
  EXPECT_TRUE(parse("train", "--mock-data").options.data.mock_data);
  EXPECT_FALSE(parse("train", "--mock-data=false").options.data.mock_data);
  for (const bool on : {true, false}) {
    const ModelOptions model = parse("train", on ? "--swiglu" : "--swiglu=false").options.model;
    EXPECT_EQ(model.activation, on ? Activation::silu : Activation::gelu);
    EXPECT_EQ(model.gated_mlp, on);
  }
  EXPECT_FALSE(parse("train", "--mock-data=false").was_given("mock-data"));
}

TEST(Parse, EveryModelFlagLands) {
  const ModelOptions m =
      parse("train",
            "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
            "--group-query-attention --num-query-groups 8 --kv-channels 128 "
            "--max-position-embeddings 131072 --padded-vocab-size 128256 --position-embedding-type "
            "rope --rotary-base 500000 --rotary-percent 0.5 --rope-scaling-type yarn "
            "--rope-scaling-factor 4 --rope-original-max-position 32768 --rope-beta-fast 16 "
            "--rope-beta-slow 2 --rope-attention-factor 1.5 --normalization RMSNorm --norm-epsilon "
            "1e-6 --swiglu --disable-bias-linear --qk-layernorm "
            "--untie-embeddings-and-output-weights --window-size 4095,0 --window-first-layer 2 "
            "--attention-dropout 0 --hidden-dropout 0.2 --init-method-std 0.01 --bf16")
          .options.model;
  ModelOptions expected;
  expected.num_layers = 32;
  expected.hidden_size = 4096;
  expected.ffn_hidden_size = 14336;
  expected.num_attention_heads = 32;
  expected.num_query_groups = 8;
  expected.kv_channels = 128;
  expected.max_position_embeddings = 131072;
  expected.vocab_size = 128256;
  expected.position_embedding = PositionEmbedding::rope;
  expected.rope = {500000, 0.5, RopeScaling::yarn, 4, 1, 4, 32768, 16, 2, 1.5};
  expected.normalization = Normalization::rms_norm;
  expected.norm_epsilon = 1e-6;
  expected.activation = Activation::silu;
  expected.gated_mlp = true;
  expected.qkv_bias = expected.attention_output_bias = expected.mlp_bias = false;
  expected.qk_norm = QkNorm::per_head;
  expected.tie_embeddings = false;
  expected.attention_window = 4096;
  expected.window_first_layer = 2;
  expected.attention_dropout = 0;
  expected.hidden_dropout = 0.2;
  expected.init_std = 0.01;
  expected.dtype = DType::bf16;
  EXPECT_EQ(m, expected);
}

TEST(Parse, EveryFlagOfLayersLands) {
  const ModelOptions m =
      parse("train",
            "--no-norm-bias --apply-layernorm-1p --norm-placement before_and_after "
            "--parallel-block two_norms --activation-function gated_quick_gelu --qk-norm-type "
            "whole_width --position-embedding-type rope --rotary-interleaved --rope-local-base 100 "
            "--no-rope-freq 4 "
            "--window-size 15,0 --window-attn-skip-freq 6 --softmax-scale 0.3 "
            "--attention-logit-softcap 50 --output-logit-softcap 30 --embedding-scale 12 "
            "--residual-scale 0.22 --logit-scale 0.0625")
          .options.model;
  ModelOptions expected;
  expected.position_embedding = PositionEmbedding::rope;
  expected.norm_bias = false;
  expected.layernorm_1p = true;
  expected.norm_placement = NormPlacement::before_and_after;
  expected.parallel_block = ParallelBlock::two_norms;
  expected.activation = Activation::quick_gelu;
  expected.gated_mlp = true;
  expected.qk_norm = QkNorm::whole_width;
  expected.rotary_interleaved = true;
  expected.rope_local_base = 100;
  expected.no_rope_freq = 4;
  expected.attention_window = 16;
  expected.window_skip_freq = 6;
  expected.softmax_scale = 0.3;
  expected.attention_softcap = 50;
  expected.logit_softcap = 30;
  expected.embedding_scale = 12;
  expected.residual_scale = 0.22;
  expected.logit_scale = 0.0625;
  EXPECT_EQ(m, expected);
}

TEST(Parse, ActivationsHaveOneNameEach) {
  for (const Activation activation : kActivations)
    for (const bool gated : {false, true}) {
      const std::string name = fmt::format("{}{}", gated ? "gated_" : "", to_string(activation));
      const ModelOptions m = parse("train", "--activation-function " + name).options.model;
      EXPECT_EQ(m.activation, activation) << name;
      EXPECT_EQ(m.gated_mlp, gated) << name;
    }
  const ModelOptions geglu = parse("train", "--geglu").options.model;
  EXPECT_TRUE(geglu.gated_mlp && geglu.activation == Activation::gelu);
  const ModelOptions quick = parse("train", "--quick-geglu").options.model;
  EXPECT_TRUE(quick.gated_mlp && quick.activation == Activation::quick_gelu);
  const ModelOptions squared = parse("train", "--squared-relu").options.model;
  EXPECT_TRUE(!squared.gated_mlp && squared.activation == Activation::squared_relu);
}

TEST(Parse, RefiningFlagsWorkInAnyOrder) {
  for (const char* line : {"--add-qkv-bias --disable-bias-linear --num-query-groups 4 "
                           "--group-query-attention",
                           "--group-query-attention --num-query-groups 4 --disable-bias-linear "
                           "--add-qkv-bias"}) {
    const ModelOptions m = parse("train", line).options.model;
    EXPECT_TRUE(m.qkv_bias);
    EXPECT_FALSE(m.attention_output_bias);
    EXPECT_FALSE(m.mlp_bias);
    EXPECT_EQ(m.num_query_groups, 4);
  }
  EXPECT_EQ(parse("train", "--group-query-attention").options.model.num_query_groups, 1);
}

TEST(Parse, ShorthandsSetWhatTheyStandFor) {
  EXPECT_EQ(parse("train", "--use-rope-scaling --position-embedding-type rope")
                .options.model.rope.scaling,
            RopeScaling::llama3);
  EXPECT_EQ(parse("train", "--recompute-activations").options.recompute.granularity,
            RecomputeGranularity::selective);
  EXPECT_EQ(parse("generate", "--fp16").options.model.dtype, DType::f16);
  EXPECT_EQ(parse("train", "--params-dtype f64").options.model.dtype, DType::f64);
}

TEST(Parse, ListsTakeSeveralValuesAndRepeat) {
  const ParsedCommand parsed =
      parse("preprocess", "--input a.jsonl b.jsonl --json-keys text title --input c.jsonl");
  EXPECT_EQ(parsed.preprocess.inputs, (Texts{"a.jsonl", "b.jsonl", "c.jsonl"}));
  EXPECT_EQ(parsed.preprocess.json_keys, (Texts{"text", "title"}));
  EXPECT_EQ(parse("preprocess", "--tokenizer-type NullTokenizer --vocab-size 9")
                .preprocess.tokenizer.vocab_size,
            9);
  const Texts args = {"--prompt", "once upon", "--prompt=--a", "--prompt", "false", "-1"};
  EXPECT_EQ(parse_command("generate", args).generate.prompts,
            (Texts{"once upon", "--a", "false", "-1"}));
  EXPECT_TRUE(parse("generate", "--prompt false").was_given("prompt"));
}

TEST(Parse, CommandsHaveTheirOwnFlags) {
  const GenerateOptions g =
      parse("generate", "--max-new-tokens 5 --temperature 0.7 --top-k 40 --top-p 0.9").generate;
  EXPECT_EQ(g.max_new_tokens, 5);
  EXPECT_EQ(g.temperature, 0.7);
  EXPECT_EQ(g.top_k, 40);
  EXPECT_EQ(g.top_p, 0.9);
  const ParsedCommand e = parse("evaluate", "--load-hf m --tokens t.jsonl --output o.jsonl");
  EXPECT_EQ(e.options.train.load_hf, "m");
  EXPECT_EQ(e.evaluate, (EvaluateOptions{"t.jsonl", "o.jsonl"}));
  EXPECT_EQ(e.options.train.micro_batch_size, 1);
}

TEST(Parse, HelpStopsEverythingElse) {
  EXPECT_TRUE(parse("train", "--no-such-flag --help").help);
  EXPECT_TRUE(parse("train", "-h").help);
  EXPECT_FALSE(parse("generate", "--prompt -h").help);
}

TEST(Parse, AllProblemsAreReportedAtOnce) {
  expect_input_error(
      [] {
        parse("train", "--num-layer 4 --fp4-format e2m1 --hidden-size 12x --lr -1 --moe-x 1 2");
      },
      {"5 problems", "--num-layer: unknown flag (did you mean --num-layers?)",
       "--fp4-format: known Megatron flag, not supported yet by Tessera", "--hidden-size '12x'",
       "--lr '-1'", "--moe-x: unknown flag"});
}

// What is wrong with flags, with values and with the rules between them.
TEST(Parse, OneMessageHasAllProblems) {
  const auto check = [](std::string_view line) {
    ParsedCommand parsed = parse_without_check("train", test::words(line));
    resolve(parsed.options);
    validate(parsed);
  };
  expect_input_error(
      [&] {
        check(std::string(test::kTraining) +
              " --fp8-format hybrid --hidden-size 12x --min-lr 1 --nun-layers 3");
      },
      {"4 problems", "--fp8-format: known Megatron flag",
       "--hidden-size '12x': expected an integer", "--nun-layers: unknown flag",
       "--min-lr 1 is above --lr 0.001"});
  // What follows from a bad value is not reported: that --hidden-size is required, for one.
  expect_input_error([&] { check(std::string(test::kTraining) + " --hidden-size 12x"); },
                     {"--hidden-size '12x': expected an integer"});
}

TEST(Parse, TheLastOfRepeatedFlagsCounts) {
  const ParsedCommand parsed = parse(
      "train", "--num-layers 4 --seed 1 --num_layers 6 --data-path a b --data-path c --seed 1");
  EXPECT_EQ(parsed.options.model.num_layers, 6);
  EXPECT_EQ(parsed.options.data.data_path, (Texts{"c"}));
  ASSERT_EQ(parsed.notes.warnings.size(), 2u);
  EXPECT_EQ(parsed.notes.warnings[0],
            "--num-layers is given several times: the last one counts, '6'");
}

class ConfigFile : public testing::Test {
 protected:
  ParsedCommand with_file(std::string_view yaml, std::string_view line,
                          std::string_view command = "train") {
    const auto path = folder_ / "run.yaml";
    write_file_atomically(path, yaml);
    return parse(command, "--config " + path.string() + " " + std::string(line));
  }

 private:
  TempFolder folder_;
};

TEST_F(ConfigFile, TheCommandLineWins) {
  const Options options =
      with_file("num-layers: 4\nhidden-size: 64\nswiglu: true\n", "--num-layers 8 --swiglu=false")
          .options;
  EXPECT_EQ(options.model.num_layers, 8);
  EXPECT_EQ(options.model.hidden_size, 64);
  EXPECT_EQ(options.model.activation, Activation::gelu);
}

TEST_F(ConfigFile, TheCommandLineReplacesAlternatives) {
  const Options length = with_file("train-iters: 4\n", "--train-samples 8").options;
  EXPECT_EQ(length.train.train_iters, 0);
  EXPECT_EQ(length.train.train_samples, 8);
  EXPECT_EQ(with_file("params-dtype: f64\n", "--bf16").options.model.dtype, DType::bf16);
  EXPECT_EQ(with_file("bf16: true\n", "--params-dtype f64").options.model.dtype, DType::f64);
  EXPECT_EQ(with_file("params-dtype: f64\n", "--bf16=false").options.model.dtype, DType::f64);
  const DataOptions data = with_file("mock-data: true\n", "--data-path p").options.data;
  EXPECT_FALSE(data.mock_data);
  EXPECT_EQ(data.data_path, std::vector<std::string>{"p"});
}

TEST_F(ConfigFile, MayLoseItsEffectToTheCommandLine) {
  EXPECT_EQ(with_file("adam-beta1: 0.8\n", "--optimizer sgd").options.optimizer.kind,
            OptimizerKind::sgd);
  EXPECT_EQ(
      with_file("lr-wsd-decay-iters: 5\n", "--lr-decay-style WSD").options.schedule.wsd_decay_iters,
      5);
  EXPECT_TRUE(with_file("adam-beta1: 0.8\n", "--optimizer sgd").notes.warnings.empty());
  const auto warning = [&](std::string_view yaml, std::string_view line) {
    return with_file(yaml, line).notes.warnings.at(0);
  };
  EXPECT_NE(warning("lr-wsd-decay-iters: 5\n", "--optimizer sgd")
                .find("run.yaml:1: lr-wsd-decay-iters '5' has no effect"),
            std::string::npos);
  EXPECT_EQ(warning("optimizer: sgd\n", "--adam-beta1 0.8"),
            "--adam-beta1 '0.8' has no effect: it belongs to --optimizer adam");
}

TEST_F(ConfigFile, HoldsListsForOtherCommands) {
  const ParsedCommand parsed =
      with_file("input:\n  - a b.jsonl\n  - c.jsonl\noutput-prefix: out\n", "", "preprocess");
  EXPECT_EQ(parsed.preprocess.inputs, (Texts{"a b.jsonl", "c.jsonl"}));
  EXPECT_EQ(parsed.preprocess.output_prefix, "out");
}

TEST_F(ConfigFile, IsNamedInErrors) {
  expect_input_error([&] { with_file("num-layers: 4\nlr: x\n", ""); }, {"run.yaml:2: lr 'x'"});
  expect_input_error([&] { with_file(std::string(2 << 20, '#'), ""); }, {"run.yaml", "bytes"});
  expect_input_error([] { parse("train", "--config /no/such/file"); }, {"/no/such/file"});
}

TEST(ApplyGiven, StoresFlagsOverOtherOptions) {
  Options stored;
  stored.model.num_layers = 12;
  stored.model.dtype = DType::bf16;
  const ParsedCommand parsed = parse("generate", "--load x --params-dtype f32");
  apply_given(parsed, stored);
  EXPECT_EQ(stored.model.num_layers, 12);
  EXPECT_EQ(stored.model.dtype, DType::f32);
  EXPECT_EQ(stored.train.load, "x");
}

// A run's config.yaml says how it was started, which a launcher decides anew.
TEST(LeaveStartToLauncher, TakesOnlyTheFilesWordBack) {
  const TempFolder folder;
  write_file_atomically(folder / "run.yaml",
                        "nproc: 4\nlaunch: processes\ntensor-model-parallel-size: 4\n");
  const std::string config = "--config " + (folder / "run.yaml").string();
  const auto under = [](int ranks, const std::string& line) {
    ParsedCommand parsed = test::train_with(line);
    leave_start_to_launcher(parsed, ranks);
    resolve(parsed.options, ranks);
    validate(parsed, ranks);
    return parsed.options.parallel;
  };
  EXPECT_EQ(under(2, config + " --tensor-model-parallel-size 2").nproc, 1);
  EXPECT_EQ(under(2, config + " --tensor-model-parallel-size 2").launch, LaunchKind::threads);
  EXPECT_EQ(under(4, config).nproc, 4) << "what it would have been anyway";
  expect_input_error([&] { under(2, "--nproc 4 --tensor-model-parallel-size 2"); },
                     {"started 2 ranks already: drop --nproc"});
  expect_input_error([&] { under(2, config + " --nproc 4 --tensor-model-parallel-size 2"); },
                     {"started 2 ranks already: drop --nproc"});
}

}  // namespace
}  // namespace tessera
