// Command lines in the style of Megatron-LM's launch scripts, cut down in size: they train as they
// are, on ranks that are threads.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/run_program.h"

namespace tessera {
namespace {

class MegatronLines : public testing::Test {
 protected:
  test::ProgramResult run(const std::string& line) {
    return test::run_line(TESSERA_PROGRAM, line, temp_.path());
  }

  // What every line has besides what it is about.
  test::ProgramResult train(const std::string& line) {
    return run(
        "train --mock-data --tokenizer-type NullTokenizer --vocab-size 63 --num-workers 0 "
        "--log-interval 1 --threads 1 --use-mcore-models --distributed-backend nccl " +
        line);
  }

  void expect_trained(const std::string& line, int steps = 5) {
    SCOPED_TRACE(line);
    const test::ProgramResult result = train(line);
    ASSERT_EQ(result.exit_code, 0) << result.error;
    EXPECT_NE(result.error.find(fmt::format(" iteration {0:8}/{0:8} |", steps)), std::string::npos)
        << result.error;
    EXPECT_NE(result.error.find("without need here: --use-mcore-models"), std::string::npos)
        << result.error;
  }

  // A field of the log, by iteration: "lm loss".
  static std::vector<std::string> field(const std::string& log, const std::string& name) {
    std::vector<std::string> values;
    const std::string before = " " + name + ": ";
    for (std::size_t at = log.find(before); at != log.npos; at = log.find(before, at + 1)) {
      const std::size_t begin = at + before.size();
      values.push_back(log.substr(begin, log.find(" |", begin) - begin));
    }
    return values;
  }

  test::TempFolder temp_;
};

const std::string kSmall =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 2 --lr 0.00015 --min-lr 1e-05 "
    "--lr-decay-style cosine --weight-decay 1e-2 --clip-grad 1.0 ";
const std::string kIterations =
    "--global-batch-size 8 --train-iters 5 --lr-decay-iters 320000 --lr-warmup-fraction .01 "
    "--eval-interval 1000 --eval-iters 2 --split 949,50,1 ";
const std::string kSaves =
    "--save ckpt --load ckpt --save-interval 50 --async-save --use-persistent-ckpt-worker "
    "--ckpt-format torch_dist --dist-ckpt-strictness log_all --ckpt-fully-parallel-load ";
const std::string kLogs =
    "--log-params-norm --log-num-zeros-in-grad --log-validation-ppl-to-tensorboard "
    "--log-timers-to-tensorboard --tensorboard-dir logs --timing-log-level 0 ";
const std::string kLlama =
    "--swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000 "
    "--disable-bias-linear --untie-embeddings-and-output-weights --no-rope-fusion "
    "--attention-dropout 0.0 --hidden-dropout 0.0 ";

TEST_F(MegatronLines, OfGptTrain) {
  expect_trained(kSmall + kIterations + kSaves + kLogs +
                 "--transformer-impl local --no-gradient-accumulation-fusion --bf16 "
                 "--attention-softmax-in-fp32 --deterministic-mode --tensor-model-parallel-size 2 "
                 "--sequence-parallel --nproc 2");
  expect_trained(kSmall + kIterations + kLogs +
                 "--transformer-impl transformer_engine --attention-backend unfused --fp16 "
                 "--loss-scale 8192 --apply-query-key-layer-scaling --use-checkpoint-opt_param-"
                 "scheduler --pipeline-model-parallel-size 2 --nproc 4");
  expect_trained(kSmall + kIterations +
                 "--num-layers 4 --pipeline-model-parallel-size 2 "
                 "--num-layers-per-virtual-pipeline-stage 1 --use-distributed-optimizer "
                 "--overlap-grad-reduce --overlap-param-gather --manual-gc --nproc 4");
  expect_trained(kSmall + kIterations +
                 "--pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping --sequence-parallel "
                 "--no-bias-gelu-fusion --no-masked-softmax-fusion --nproc 4");
}

// Of 2021: before Megatron Core, and before most of today's names.
TEST_F(MegatronLines, OfEarlierVersionsTrain) {
  expect_trained(kSmall + kIterations +
                 "--model-parallel-size 2 --DDP-impl local --checkpoint-activations "
                 "--activations-checkpoint-num-layers 1 --fp32-allreduce --nproc 2");
  expect_trained(kSmall + kIterations +
                 "--tensor-model-parallel-size 2 --activations-checkpoint-method uniform "
                 "--accumulate-allreduce-grads-in-fp32 --no-async-tensor-model-parallel-allreduce "
                 "--use-rotary-position-embeddings --no-position-embedding --nproc 4");
  expect_trained(
      "--batch-size 2 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
      "--max-position-embeddings 16 --train-iters 5 --lr 1e-4 --warmup 0.01 --eval-iters 0");
}

TEST_F(MegatronLines, OfSamplesTrain) {
  const std::string samples =
      "--train-samples 20 --lr-decay-samples 18 --lr-warmup-samples 4 --global-batch-size 4 "
      "--eval-iters 1 --split 99,1,0 ";
  expect_trained(kSmall + samples + kLlama +
                 "--group-query-attention --num-query-groups 2 --kv-channels 8 --bf16 "
                 "--use-flash-attn --exit-duration-in-mins 230 --no-mmap-bin-files "
                 "--recompute-activations --nproc 2");
  expect_trained(kSmall + samples +
                 "--decoupled-lr 5.0e-4 --decoupled-min-lr 4.5e-5 --squared-relu "
                 "--apply-layernorm-1p --rotary-percent 0.5 --position-embedding-type rope "
                 "--init-method-std 0.0134 --use-distributed-optimizer --nproc 2");
  expect_trained(kSmall + samples +
                 "--start-weight-decay 0.01 --end-weight-decay 0.1 --weight-decay-incr-style "
                 "cosine --make-vocab-size-divisible-by 1187 --sft-tokenizer-prompt-format x");
}

TEST_F(MegatronLines, OfShardedDataParallelismTrain) {
  for (const char* sharding :
       {"--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
        "--init-model-with-meta-device --fsdp-double-buffer --use-nccl-ub --ckpt-format "
        "fsdp_dtensor --megatron-fsdp-main-params-dtype fp32 --megatron-fsdp-main-grads-dtype fp32 "
        "--megatron-fsdp-grad-comm-dtype bf16",
        "--use-torch-fsdp2 --ckpt-format torch_dist", "--data-parallel-sharding-strategy no_shard",
        "--use-megatron-fsdp --num-distributed-optimizer-instances 2 --outer-dp-sharding-strategy "
        "no_shard"})
    expect_trained(kSmall + kIterations + "--bf16 --nproc 4 " + sharding);
}

TEST_F(MegatronLines, OfExpertsAndLongSequencesTrain) {
  const std::string experts =
      "--num-experts 4 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss "
      "--moe-aux-loss-coeff 1e-2 --moe-grouped-gemm --disable-bias-linear --swiglu "
      "--normalization RMSNorm --position-embedding-type rope --moe-permute-fusion ";
  expect_trained(
      kSmall + kIterations + experts +
      "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1 "
      "--moe-token-dispatcher-type alltoall --overlap-moe-expert-parallel-comm --nproc 2");
  expect_trained(kSmall + kIterations + experts +
                 "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep "
                 "--expert-model-parallel-size 2 --moe-layer-recompute --recompute-granularity "
                 "selective --nproc 4");
  expect_trained(kSmall + kIterations + kLlama +
                 "--context-parallel-size 2 --cp-comm-type p2p --tensor-model-parallel-size 2 "
                 "--tp-comm-overlap --sequence-parallel --nproc 4");
  expect_trained(kSmall + kIterations +
                 "--multi-latent-attention --qk-layernorm --disable-bias-linear --normalization "
                 "RMSNorm --position-embedding-type rope --kv-lora-rank 16 --q-lora-rank 16 "
                 "--qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8 --rotary-scaling-factor "
                 "40 --mscale 1.0 --mscale-all-dim 1.0 --kv-channels 128 --nproc 2");
}

// The smaller batch of a schedule without bubbles needs more buffers between stages than the
// larger.
TEST_F(MegatronLines, WithBatchesThatGrowTrainInEverySchedule) {
  const std::string line = kSmall + kLlama +
                           "--num-layers 3 --micro-batch-size 1 --train-samples 12 "
                           "--lr-decay-samples 12 --step-batch-size-schedule 0:2 64:4 ";
  const test::ProgramResult one = train(line);
  EXPECT_EQ(one.exit_code, 0) << one.error;
  const test::ProgramResult zb =
      train(line + "--pipeline-model-parallel-size 3 --nproc 3 --pipeline-schedule zb-h1");
  EXPECT_EQ(zb.exit_code, 0) << zb.error;
  EXPECT_EQ(field(zb.error, "lm loss"), field(one.error, "lm loss"));
}

TEST_F(MegatronLines, WithBatchesThatGrowTrain) {
  // 16 tokens a sample: 4 samples a step up to 16 samples, then 8.
  const std::string line = kSmall + kLlama +
                           "--train-samples 40 --lr-decay-samples 40 --lr-warmup-samples 8 "
                           "--eval-global-batch-size 8 --eval-iters 1 ";
  const test::ProgramResult steps = train(line + "--step-batch-size-schedule 0:4 256:8 --nproc 2");
  ASSERT_EQ(steps.exit_code, 0) << steps.error;
  EXPECT_EQ(
      field(steps.error, "global batch size"),
      (std::vector<std::string>{"    4", "    4", "    4", "    4", "    8", "    8", "    8"}));
  const test::ProgramResult ramp =
      train(line + "--rampup-batch-size 4 4 16 --global-batch-size 8 --nproc 2");
  EXPECT_EQ(field(ramp.error, "lm loss"), field(steps.error, "lm loss")) << ramp.error;
  // By iterations it is the same run.
  const test::ProgramResult iterations =
      train(kSmall + kLlama +
            "--train-iters 7 --lr-decay-iters 5 --lr-warmup-iters 1 --eval-global-batch-size 8 "
            "--eval-iters 1 --step-batch-size-schedule 0:4 256:8 --nproc 2");
  EXPECT_EQ(field(iterations.error, "lm loss"), field(steps.error, "lm loss")) << iterations.error;
  // Any layout, and any microbatches.
  for (const char* layout :
       {"--pipeline-model-parallel-size 2 --nproc 2", "--micro-batch-size 1",
        "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads --nproc 2"})
    EXPECT_EQ(
        field(train(line + "--step-batch-size-schedule 0:4 256:8 " + layout).error, "lm loss"),
        field(steps.error, "lm loss"))
        << layout;
}

// The batches of a run with a schedule are those of runs of one size each, one after the other.
TEST_F(MegatronLines, WithBatchesThatGrowGoOnAsRunsOfOneSize) {
  const std::string line =
      kSmall + kLlama + "--lr-decay-samples 40 --eval-iters 0 --train-samples ";
  const std::vector<std::string> whole =
      field(train(line + "40 --step-batch-size-schedule 0:4 256:8").error, "lm loss");
  std::vector<std::string> parts =
      field(train(line + "16 --global-batch-size 4 --save a").error, "lm loss");
  const test::ProgramResult rest = train(line + "40 --global-batch-size 8 --save a --load a");
  for (const std::string& loss : field(rest.error, "lm loss")) parts.push_back(loss);
  EXPECT_EQ(whole, parts) << rest.error;
  EXPECT_EQ(whole.size(), 7u);
  // And the run itself, stopped in between.
  const std::string scheduled = line + "40 --step-batch-size-schedule 0:4 256:8 --save b --load b ";
  std::vector<std::string> halves = field(train(scheduled + "--exit-interval 5").error, "lm loss");
  for (const std::string& loss : field(train(scheduled).error, "lm loss")) halves.push_back(loss);
  EXPECT_EQ(halves, whole);
}

TEST_F(MegatronLines, LogNormsAndZerosInEveryLayout) {
  // Rows of the embedding that no token reads have gradients of 0.
  const std::string line =
      kSmall + kIterations + kLlama + kLogs + "--vocab-size 4095 --micro-batch-size 1 ";
  const test::ProgramResult one = train(line);
  const std::vector<std::string> zeros = field(one.error, "num zeros");
  const std::vector<std::string> norms = field(one.error, "params norm");
  ASSERT_EQ(zeros.size(), 5u) << one.error;
  EXPECT_GT(std::stol(zeros[0]), 32 * 3000);
  EXPECT_LT(std::stol(zeros[0]), 32 * 4096);
  EXPECT_GT(std::stod(norms[0]), 1);
  for (const char* layout :
       {"--tensor-model-parallel-size 2 --sequence-parallel --nproc 2",
        "--use-distributed-optimizer --nproc 2", "--pipeline-model-parallel-size 2 --nproc 4",
        "--use-megatron-fsdp --nproc 4"}) {
    const test::ProgramResult result = train(line + layout);
    EXPECT_EQ(field(result.error, "num zeros")[0], zeros[0]) << layout;
    EXPECT_EQ(field(result.error, "params norm"), norms) << layout;
  }
}

// Embedding and output layer have a learning rate of their own, wherever their parts are.
TEST_F(MegatronLines, DecoupleRatesInEveryLayout) {
  const std::string line = kSmall + kLlama +
                           "--lr-decay-style constant --lr 1e-3 --global-batch-size 4 "
                           "--train-iters 5 --eval-iters 0 --micro-batch-size 1 ";
  const std::string decoupled = line + "--decoupled-lr 1e-2 --decoupled-min-lr 1e-3 ";
  const std::vector<std::string> losses = field(train(decoupled).error, "lm loss");
  ASSERT_EQ(losses.size(), 5u);
  EXPECT_NE(field(train(line).error, "lm loss"), losses);
  for (const char* layout :
       {"--use-distributed-optimizer --nproc 4", "--use-megatron-fsdp --nproc 2",
        "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --nproc 4"})
    EXPECT_EQ(field(train(decoupled + layout).error, "lm loss"), losses) << layout;
}

// The ranks have other places, and compute the same.
TEST_F(MegatronLines, MapRanksInEitherOrder) {
  const std::string line = kSmall + kIterations + kLlama +
                           "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
                           "--use-distributed-optimizer --nproc 8 --micro-batch-size 1 ";
  const std::vector<std::string> usual = field(train(line).error, "lm loss");
  EXPECT_EQ(usual.size(), 5u);
  EXPECT_EQ(field(train(line + "--use-tp-pp-dp-mapping").error, "lm loss"), usual);
}

TEST_F(MegatronLines, TakeModelAndScheduleFromACheckpoint) {
  const std::string rest =
      "--seq-length 16 --micro-batch-size 2 --global-batch-size 4 --eval-iters 0 --load a ";
  ASSERT_EQ(train(kSmall + kLlama + rest + "--train-iters 3 --lr-decay-iters 9 --save a").exit_code,
            0);
  const std::string resumed = rest + "--train-iters 6 --save b ";
  const test::ProgramResult same =
      train(kSmall + kLlama + resumed + "--lr-decay-iters 9 --save-interval 6");
  const test::ProgramResult taken =
      train(resumed +
            "--lr 1 --use-checkpoint-args --use-checkpoint-opt-param-scheduler "
            "--attention-dropout 0 --hidden-dropout 0 --save c");
  ASSERT_EQ(taken.exit_code, 0) << taken.error;
  EXPECT_EQ(field(taken.error, "learning rate"), field(same.error, "learning rate"));
  EXPECT_EQ(field(taken.error, "lm loss"), field(same.error, "lm loss"));
  EXPECT_EQ(field(same.error, "lm loss").size(), 3u);
  // Without the flag, the schedule is that of the flags.
  const test::ProgramResult own =
      train(kSmall + kLlama + rest + "--train-iters 6 --lr 1e-3 --override-opt_param-scheduler");
  EXPECT_NE(field(own.error, "learning rate"), field(same.error, "learning rate"));
  const test::ProgramResult both = train(kSmall + rest +
                                         "--train-iters 6 --override-opt-param-scheduler "
                                         "--use-checkpoint-opt-param-scheduler");
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_NE(both.error.find("exclude each other"), std::string::npos) << both.error;
}

TEST_F(MegatronLines, TimeTheirSteps) {
  const std::string line = kSmall + kIterations + "--nproc 2 --timing-log-level 1 ";
  const test::ProgramResult result =
      train(line + "--check-weight-hash-across-dp-replicas-interval 2");
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_NE(result.error.find("(min, max) time across ranks (ms):\n    forward-backward ....."),
            std::string::npos)
      << result.error;
  const test::ProgramResult without = train(kSmall + kIterations + "--nproc 2");
  EXPECT_EQ(field(result.error, "lm loss"), field(without.error, "lm loss"));
  const test::ProgramResult all = train(line + "--timing-log-option all");
  EXPECT_NE(all.error.find("     rank  1: "), std::string::npos) << all.error;
}

// A size without a tokenizer is that of the tokens in the data.
TEST_F(MegatronLines, TakeTheSizeOfTheVocabularyAlone) {
  std::string text;
  for (int token = 0; token < 2000; ++token) text += std::to_string(token % 601) + " ";
  write_file_atomically(temp_ / "tokens.jsonl", "{\"text\": \"" + text + "\"}\n");
  ASSERT_EQ(run("preprocess --input tokens.jsonl --tokenizer-type NullTokenizer --vocab-size 601 "
                "--output-prefix data")
                .exit_code,
            0);
  const std::string line = "train " + kSmall +
                           "--train-iters 2 --eval-iters 0 --data-path data_text_document "
                           "--split 1 --log-interval 1 --threads 1 --vocab-size ";
  const test::ProgramResult result = run(line + "601");
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const test::ProgramResult small = run(line + "300");
  EXPECT_NE(small.error.find("is outside the vocabulary [0, 300)"), std::string::npos)
      << small.error;
}

}  // namespace
}  // namespace tessera
