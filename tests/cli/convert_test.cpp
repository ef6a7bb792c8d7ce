// Models that come from Hugging Face and leave for it, and checkpoints that are looked at, as a
// user does it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tessera/base/files.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

class Convert : public testing::Test {
 protected:
  test::ProgramResult run(const std::string& line) {
    return test::run_line(TESSERA_PROGRAM, line, temp_.path());
  }
  // What a command prints that must succeed.
  std::string said(const std::string& line) {
    const test::ProgramResult result = run(line);
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.error;
    return result.out;
  }
  void expect(const std::string& line, int code, const std::string& part) {
    const test::ProgramResult result = run(line);
    EXPECT_EQ(result.exit_code, code) << line << "\n" << result.out << result.error;
    EXPECT_NE((result.out + result.error).find(part), std::string::npos)
        << "no '" << part << "' in\n"
        << result.out << result.error;
  }
  static std::string golden(const std::string& name) {
    return (fs::path(TESSERA_SOURCE_DIR) / "tests/golden/data" / name).string();
  }
  void train(const std::string& more) {
    said(
        "train --num-layers 2 --num-attention-heads 2 --seq-length 16 --lr 1e-2 "
        "--micro-batch-size 2 --train-iters 2 --save-interval 1 --mock-data --eval-iters 0 " +
        more);
  }

  test::TempFolder temp_;
};

// The same bits before and after, by way of a checkpoint, in files of the default size and in many.
TEST_F(Convert, ModelsComeAndLeave) {
  std::ofstream(temp_ / "tokens.jsonl") << R"({"tokens": [5, 17, 3, 42, 8, 0, 58, 11, 4, 60]})";
  const auto evaluated = [&](const std::string& source) {
    return said("evaluate --tokens tokens.jsonl " + source);
  };
  for (const std::string name : {"gpt2", "llama3", "mistral", "qwen2", "qwen3", "deepseek_v3"}) {
    SCOPED_TRACE(name);
    const std::string expected = evaluated("--load-hf " + golden(name));
    said("convert --from-hf " + golden(name) + " --save " + name);
    EXPECT_EQ(evaluated("--load " + name), expected);
    said("convert --load " + name + " --to-hf " + name + ".hf --max-shard-size 20KB");
    EXPECT_EQ(evaluated("--load-hf " + name + ".hf"), expected);
    EXPECT_TRUE(fs::exists(temp_ / (name + ".hf/model.safetensors.index.json")));
  }
  said("convert --load llama3 --to-trtllm trt --tp 2");
  EXPECT_TRUE(fs::exists(temp_ / "trt/rank1.safetensors"));
  expect("convert --load deepseek_v3 --to-trtllm none", 2, "this export has no latent attention");
}

TEST_F(Convert, AnImportedModelIsTrainedOn) {
  said("convert --from-hf " + golden("gpt2") + " --save gpt2 --bf16");
  const std::string out = said("generate --load gpt2 --prompt 5 --max-new-tokens 3");
  EXPECT_EQ(out.substr(0, 2), "5 ");  // its texts are token numbers
  train(
      "--hidden-size 28 --padded-vocab-size 101 --max-position-embeddings 32 "
      "--tokenizer-type NullTokenizer --vocab-size 100 --bf16 --load gpt2 --finetune --save more");
  said("convert --load more --ckpt-step 1 --to-hf out");
  EXPECT_EQ(read_text_file(temp_ / "out/generation_config.json"),
            "{\n  \"bos_token_id\": 0,\n  \"eos_token_id\": 0\n}\n");
  expect("convert --load more --to-hf out", 2, "is not empty, and nothing is overwritten");
  expect("convert --from-hf " + golden("gpt2") + " --save more", 2, "nothing is overwritten");
}

// From a layout of ranks to one rank, and back.
TEST_F(Convert, ModelsWithExpertsComeAndLeave) {
  std::ofstream(temp_ / "tokens.jsonl") << R"({"tokens": [5, 17, 3, 42, 8, 0, 56, 11, 4, 50]})";
  said("train --load-hf " + golden("mixtral") +
       " --tokenizer-type NullTokenizer --vocab-size 60 --seq-length 16 --lr 1e-2 --mock-data "
       "--micro-batch-size 2 --train-iters 2 --eval-iters 0 --save moe --save-interval 2 "
       "--nproc 4 --expert-model-parallel-size 2 --tensor-model-parallel-size 2 "
       "--sequence-parallel --use-distributed-optimizer --moe-aux-loss-coeff 0.01");
  said("convert --load moe --to-hf moe.hf");
  const std::string evaluated = said("evaluate --tokens tokens.jsonl --load moe");
  EXPECT_EQ(said("evaluate --tokens tokens.jsonl --load-hf moe.hf"), evaluated);
  said("convert --load moe --to-trtllm trt --tp 2");
  EXPECT_TRUE(fs::exists(temp_ / "trt/rank1.safetensors"));
}

// Saved by 8 expert-parallel ranks, resumed by 2, and exported: what one rank trains.
TEST_F(Convert, ExpertsOfEightRanksGoToTwoAndLeave) {
  std::ofstream(temp_ / "tokens.jsonl") << R"({"tokens": [5, 17, 3, 42, 8, 0, 56, 11, 4, 50]})";
  const std::string line =
      "train --hidden-size 16 --num-layers 2 --num-attention-heads 4 --swiglu --normalization "
      "RMSNorm --position-embedding-type rope --disable-bias-linear "
      "--untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0 "
      "--num-experts 8 --moe-ffn-hidden-size 24 --ffn-hidden-size 24 --moe-aux-loss-coeff 0.01 "
      "--tokenizer-type NullTokenizer --vocab-size 60 --seq-length 16 --max-position-embeddings "
      "16 --lr 1e-2 --lr-decay-style constant --mock-data --micro-batch-size 1 "
      "--global-batch-size 8 --eval-iters 0 --save-interval 2 --threads 1 ";
  said(line + "--train-iters 4 --nproc 1 --save one");
  said(line + "--train-iters 2 --nproc 8 --expert-model-parallel-size 8 --save moe");
  said(line + "--train-iters 4 --nproc 2 --expert-model-parallel-size 2 --save moe --load moe");
  said("convert --load moe --to-hf moe.hf");
  const std::string evaluated = said("evaluate --tokens tokens.jsonl --load moe");
  EXPECT_EQ(said("evaluate --tokens tokens.jsonl --load-hf moe.hf"), evaluated);
  const auto loss_of = [](const std::string& text) {
    const std::string key = "\"loss\":";
    return std::stod(text.substr(text.find(key) + key.size()));
  };
  EXPECT_NEAR(loss_of(evaluated), loss_of(said("evaluate --tokens tokens.jsonl --load one")), 1e-3);
}

TEST_F(Convert, ModelsThatNoFamilyHasAreNotWritten) {
  train(
      "--hidden-size 16 --num-experts 4 --moe-router-topk 1 --moe-router-pre-softmax "
      "--disable-bias-linear --expert-model-parallel-size 2 --nproc 2 --save experts");
  expect("convert --load experts --to-hf out", 2,
         "the number of experts would become 0 instead of 4");
  expect("convert --load experts --to-trtllm out", 2, "it is none of GPT-2");
  EXPECT_FALSE(fs::exists(temp_ / "out"));
  expect("inspect --load experts", 0, "expert 2, expert_tensor 1");
}

// What a model is trained with may depend on the model, and is checked when it has been read.
TEST_F(Convert, LossesOfExpertsNeedAModelWithExperts) {
  const std::string rest =
      " --tokenizer-type NullTokenizer --vocab-size 60 --seq-length 16 --lr 1e-2 --mock-data "
      "--micro-batch-size 2 --train-iters 1 --log-interval 1 --eval-iters 0 ";
  expect("train --load-hf " + golden("mixtral") + rest + "--moe-aux-loss-coeff 0.01", 0,
         "load_balancing_loss");
  expect("train --load-hf " + golden("llama3") + rest + "--moe-aux-loss-coeff 0.01", 0,
         "--moe-aux-loss-coeff '0.01' has no effect: it belongs to --num-experts");
}

TEST_F(Convert, CheckpointsAreLookedAt) {
  train("--hidden-size 16 --save run");
  train("--hidden-size 16 --save twin");
  expect("inspect run", 0, "consumed     4 samples of 16 tokens, 64 tokens");
  expect("inspect run", 0, "memory of one rank");
  expect("inspect run/iter_0000001 --tensors", 0, "'exp_avg_sq.final_norm.bias' f32 [16]");
  expect("inspect run --verify --diff twin", 0, "tensors are equal to the bit");
  expect("inspect run --diff twin/iter_0000001", 1, "iteration: 2 against 1");
  expect("inspect nowhere --verify", 2, "there is no such folder");
  expect("inspect run --ckpt-step 7", 2, "has no checkpoint of iteration 7");
  {
    std::fstream file(temp_ / "run/iter_0000002/model-00000.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }
  expect("inspect run --verify", 1, "DAMAGED: 'model-00000.safetensors', bytes 0 to ");
  expect("inspect run --verify --diff twin", 1, "not compared with 'twin'");
  expect("inspect run --verify --ckpt-step 1", 0, "all is well");
  std::ofstream(temp_ / "run/iter_0000002/manifest.json") << "{}";
  expect("inspect run --verify", 1, "DAMAGED: ");
  expect("inspect run", 0, "iteration    1");  // passes over it, as training would
}

}  // namespace
}  // namespace tessera
