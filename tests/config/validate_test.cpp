#include "tessera/config/rules/validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/config/command_lines.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::accept;
using test::expect_input_error;
using test::parse;

TEST(Resolve, FillsInWhatFollows) {
  const Options o = accept("train", test::kTraining).options;
  EXPECT_EQ(o.model.ffn_hidden_size, 256);
  EXPECT_EQ(o.model.kv_channels, 8);
  EXPECT_EQ(o.model.num_query_groups, 8);
  EXPECT_EQ(o.model.max_position_embeddings, 32);
  EXPECT_EQ(o.model.vocab_size, 257);
  EXPECT_EQ(o.schedule.decay_iters, 100);
  EXPECT_EQ(o.data.split, "1,1,1");
}

TEST(Resolve, FollowsMegatronsGatedWidth) {
  ModelOptions model;
  model.hidden_size = 4096;
  model.activation = Activation::silu;
  model.gated_mlp = true;
  resolve_model(model);
  EXPECT_EQ(model.ffn_hidden_size, 10880);
}

TEST(Resolve, TakesWholeBatchesOfSamples) {
  Options o = parse("train", "--micro-batch-size 4 --train-samples 1003 --seed 7").options;
  resolve(o);
  EXPECT_EQ(o.train.global_batch_size, 4);
  EXPECT_EQ(o.train.train_iters, 250);
  EXPECT_EQ(o.schedule.decay_samples, 1003);
  EXPECT_EQ(o.schedule.decay_iters, 0);
  EXPECT_EQ(o.data.seed, 7u);
}

TEST(Resolve, TakesTheVocabularyFromTheTokenizer) {
  const auto vocabulary = [](const char* line) {
    Options o = parse("train", line).options;
    resolve(o);
    return o.model.vocab_size;
  };
  EXPECT_EQ(vocabulary(""), 257);
  EXPECT_EQ(vocabulary("--vocab-size 50257"), 50257);
  EXPECT_EQ(vocabulary("--tokenizer-type NullTokenizer --vocab-size 50257"), 50258);
  EXPECT_EQ(vocabulary("--vocab-size 50257 --padded-vocab-size 50304"), 50304);
}

TEST(Resolve, ChangesNothingTheSecondTime) {
  Options once = parse("train",
                       "--micro-batch-size 4 --train-samples 1003 --mock-data "
                       "--num-layers 2 --hidden-size 64 --num-attention-heads 4")
                     .options;
  resolve(once);
  Options twice = once;
  resolve(twice);
  EXPECT_EQ(once, twice);
}

TEST(Resolve, DerivesTheLayoutFromTheRanks) {
  const auto layout = [](const char* line, std::optional<int> ranks = std::nullopt) {
    Options o = parse("train", line).options;
    resolve(o, ranks);
    return o.parallel;
  };
  EXPECT_EQ(layout("").data, 1);
  EXPECT_EQ(layout("--nproc 4").data, 4);
  EXPECT_EQ(layout("--nproc 4 --tensor-model-parallel-size 2").data, 2);
  EXPECT_EQ(layout("--tensor-model-parallel-size 2", 16).data, 8);
  EXPECT_EQ(layout("--nproc 1 --pipeline-model-parallel-size 2 --context-parallel-size 2", 16).data,
            4);
  EXPECT_EQ(layout("--nproc 6 --tensor-model-parallel-size 4").data, 1) << "validate refuses it";
  EXPECT_EQ(layout("--tensor-model-parallel-grid 3,3 --nproc 9").tensor, 9);
  EXPECT_EQ(layout("--tensor-model-parallel-grid 2,2 --nproc 8").data, 2);
  EXPECT_EQ(layout("--tensor-model-parallel-size 2").expert_tensor, 2);
}

TEST(Resolve, CountsEveryCopyInTheGlobalBatch) {
  Options o = parse("train", "--micro-batch-size 4 --tensor-model-parallel-size 2").options;
  resolve(o, 6);
  EXPECT_EQ(o.train.global_batch_size, 12);
}

TEST(Resolve, SurvivesAnyValue) {
  for (const std::int64_t value : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                                   std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
    Options o;
    o.model.hidden_size = o.model.num_attention_heads = o.data.tokenizer.vocab_size = value;
    o.train.micro_batch_size = o.train.train_samples = value;
    o.data.tokenizer.kind = TokenizerKind::null;
    resolve(o);
    EXPECT_THROW(validate_model(o.model), InputError);
  }
}

TEST(Validate, AcceptsKnownModels) {
  accept("train",
         "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 "
         "--max-position-embeddings 1024 --tokenizer-type NullTokenizer --vocab-size 50256 "
         "--micro-batch-size 4 --global-batch-size 16 --train-iters 1000 --lr 6e-4 --min-lr 6e-5 "
         "--lr-decay-style cosine --lr-warmup-fraction 0.01 --data-path gpt2_text_document");
  accept("train",
         "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
         "--group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings "
         "131072 --position-embedding-type rope --rotary-base 500000 --use-rope-scaling "
         "--normalization RMSNorm --swiglu --disable-bias-linear "
         "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 "
         "--tokenizer-type NullTokenizer --vocab-size 128255 --micro-batch-size 1 "
         "--global-batch-size 128 --train-samples 1280000 --lr 3e-4 --bf16 --data-path llama "
         "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
         "--save out --save-interval 100 --load out");
}

// Only context parallelism cuts sequences into chunks of equal length.
TEST(Validate, AcceptsAnyLengthOnOneContextRank) {
  accept("train",
         "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 15 "
         "--max-position-embeddings 15 --tokenizer-type NullTokenizer --vocab-size 100 "
         "--train-iters 10 --micro-batch-size 1 --lr 1e-3 --mock-data");
}

TEST(Validate, AcceptsTheOtherCommands) {
  accept("generate", "--load a --prompt hi --temperature 0.8 --top-k 40");
  accept("evaluate", "--load-hf a --mock-data --seq-length 16");
  accept("evaluate", "--load a --tokens t.jsonl --eval-iters 0");
  accept("preprocess", "--input a.jsonl --output-prefix out --append-eod");
  accept("inspect", "--load a");
  accept("inspect", "--num-layers 2");
  accept("inspect", "--num-layers 2 --device cpu --threads 1 --bf16 --main-grads-dtype bf16");
}

// What is used has no training step, and its microbatches no groups.
TEST(Validate, AcceptsVirtualStagesOfOtherCommands) {
  for (const std::string stages :
       {"--num-virtual-stages-per-pipeline-rank 2", "--pipeline-model-parallel-layout Et|t|t|tL"}) {
    const std::string layout = " --pipeline-model-parallel-size 2 " + stages;
    accept("inspect", "--num-layers 4" + layout);
    accept("inspect", "--num-layers 4 --global-batch-size 4" + layout);
    expect_input_error([&] { accept("inspect", "--num-layers 4 --global-batch-size 1" + layout); },
                       {"interleaved stages take 2 microbatches in a row, but a step has 1"});
    accept("evaluate", "--load a --mock-data --nproc 2" + layout);
    accept("generate", "--load a --prompt hi --nproc 2" + layout);
  }
  expect_input_error(
      [] { accept("inspect", "--num-layers 4 --micro-batch-size 2 --global-batch-size 3"); },
      {"--global-batch-size 3 is not a multiple of --micro-batch-size 2"});
}

TEST(Validate, RecomputesLayerByLayerUnlessToldOtherwise) {
  const Options o =
      accept("train", std::string(test::kTraining) + " --recompute-granularity full").options;
  EXPECT_EQ(o.recompute.method, RecomputeMethod::uniform);
  EXPECT_EQ(o.recompute.num_layers, 1);
}

ModelOptions small_model() {
  ModelOptions model = accept("train", test::kTraining).options.model;
  return model;
}

TEST(ValidateModel, AcceptsEveryFormOfALayer) {
  const std::function<void(ModelOptions&)> changes[] = {
      [](ModelOptions& m) { m.norm_bias = false; },
      [](ModelOptions& m) { m.layernorm_1p = true; },
      [](ModelOptions& m) { m.norm_placement = NormPlacement::after; },
      [](ModelOptions& m) { m.norm_placement = NormPlacement::before_and_after; },
      [](ModelOptions& m) { m.parallel_block = ParallelBlock::one_norm; },
      [](ModelOptions& m) { m.parallel_block = ParallelBlock::two_norms; },
      [](ModelOptions& m) { m.qk_norm = QkNorm::whole_width; },
      [](ModelOptions& m) { m.window_skip_freq = 2; },
      [](ModelOptions& m) { m.no_rope_freq = 2; },
      [](ModelOptions& m) { m.rotary_interleaved = true; },
      [](ModelOptions& m) { m.rope_local_base = 100; },
      [](ModelOptions& m) { m.softmax_scale = 0.5; },
      [](ModelOptions& m) { m.attention_softcap = 50; },
      [](ModelOptions& m) { m.logit_softcap = 30; },
      [](ModelOptions& m) { m.embedding_scale = 2; },
      [](ModelOptions& m) { m.residual_scale = 2; },
      [](ModelOptions& m) { m.logit_scale = 2; },
  };
  for (const auto& change : changes) {
    ModelOptions model = small_model();
    model.normalization = Normalization::rms_norm;
    change(model);
    EXPECT_NO_THROW(validate_model(model));
  }
}

TEST(ValidateModel, ChecksValuesThatNoFlagGave) {
  validate_model(small_model());
  const auto refuse = [](auto change, std::initializer_list<const char*> parts) {
    ModelOptions model = small_model();
    change(model);
    expect_input_error([&] { validate_model(model); }, parts);
  };
  refuse([](ModelOptions& m) { m.num_layers = -3; }, {"--num-layers -3: expected an integer"});
  refuse([](ModelOptions& m) { m.hidden_size = std::int64_t{1} << 62; }, {"--hidden-size 46116"});
  refuse([](ModelOptions& m) { m.norm_epsilon = std::numeric_limits<double>::quiet_NaN(); },
         {"--norm-epsilon nan"});
  refuse([](ModelOptions& m) { m.rope.base = -1; }, {"--rotary-base -1"});
  refuse(
      [](ModelOptions& m) {
        m.position_embedding = PositionEmbedding::rope;
        m.rope.percent = std::numeric_limits<double>::quiet_NaN();
        m.kv_channels = std::numeric_limits<std::int64_t>::max();
      },
      {"--rotary-percent nan", "--kv-channels 9223372036854775807"});
  refuse([](ModelOptions& m) { m.attention_window = -7; }, {"--window-size of -7 keys"});
  refuse([](ModelOptions& m) { m.hidden_dropout = 1; }, {"--hidden-dropout 1"});
  refuse([](ModelOptions& m) { m.label_smoothing = -1; }, {"--label-smoothing -1"});
  refuse([](ModelOptions& m) { m.vocab_size = 0; }, {"vocabulary is not known"});
  refuse([](ModelOptions& m) { m.max_position_embeddings = 0; }, {"--max-position-embeddings or"});
  refuse([](ModelOptions& m) { m.num_query_groups = 7; }, {"not a multiple of --num-query-groups"});
  refuse([](ModelOptions& m) { m = ModelOptions(); }, {"--num-layers is required"});
}

TEST(ValidateFit, ComparesDataWithTheModel) {
  Options options;
  options.model = small_model();
  options.data.seq_length = 32;
  validate_fit(options);
  options.data.seq_length = 33;
  expect_input_error([&] { validate_fit(options); }, {"--seq-length 33 is more than"});
  options.data.seq_length = 32;
  options.model.vocab_size = 256;
  expect_input_error([&] { validate_fit(options); }, {"the tokenizer has 257 tokens"});
}

TEST(CheckModelMatches, RefusesFlagsThatSayOtherwise) {
  const ModelOptions loaded = small_model();
  check_model_matches(parse("train", "--num-layers 4 --hidden-size 64 --lr 1"), loaded, "hf");
  expect_input_error(
      [&] {
        check_model_matches(parse("train", "--num-layers 5 --swiglu --attention-dropout 0"), loaded,
                            "hf/config.json");
      },
      {"2 problems", "--num-layers is 4 in hf/config.json, but 5 by the flags",
       "--activation-function is gelu in"});
}

}  // namespace
}  // namespace tessera
