// Parallel layouts as a user meets them: wrong ones are refused before a rank starts, with exit
// code 2, one error and nothing written; inspect --mesh draws them.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/run_program.h"

namespace tessera {
namespace {

class Layouts : public testing::Test {
 protected:
  test::ProgramResult run(const std::string& line) {
    return test::run_line(TESSERA_PROGRAM, line, temp_.path());
  }

  // A small training that saves, with `line` instead of flags of the same name.
  test::ProgramResult train(const std::string& line) {
    std::string all = "train --mock-data --save out --save-interval 1 --train-iters 1 --lr 1e-3";
    for (const std::string flag :
         {"--num-layers 1", "--hidden-size 8", "--num-attention-heads 2", "--seq-length 8",
          "--micro-batch-size 2", "--eval-iters 0", "--metrics-file metrics.jsonl"})
      if (line.find(flag.substr(0, flag.find(' '))) == std::string::npos) all += " " + flag;
    return run(all + " " + line);
  }

  void expect_refused(const std::string& line, const std::string& message) {
    SCOPED_TRACE(line);
    const test::ProgramResult result = train(line);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.error, "tessera: " + message + "\n");
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(fs::is_empty(temp_.path())) << "something was written";
  }

  test::TempFolder temp_;
};

TEST_F(Layouts, WithTheWrongNumberOfRanksAreRefused) {
  expect_refused("--tensor-model-parallel-size 2",
                 "--tensor-model-parallel-size 2 takes 2 ranks, but this process runs alone: add "
                 "--nproc 2, or start 2 processes with mpirun -n 2 (or srun, torchrun)");
  expect_refused("--tensor-model-parallel-grid 2,2",
                 "--tensor-model-parallel-grid 2,2 takes 4 ranks, but this process runs alone: add "
                 "--nproc 4, or start 4 processes with mpirun -n 4 (or srun, torchrun)");
  expect_refused("--tensor-model-parallel-size 2 --nproc 3",
                 "--nproc 3 is not a multiple of 2, the ranks that one model takes "
                 "(--tensor-model-parallel-size 2): set --nproc 2, or change the sizes");
  expect_refused("--nproc 0", "--nproc '0': expected an integer from 1 to 1048576");
  expect_refused(
      "--nproc 2048 --tensor-model-parallel-size 2048 --num-attention-heads 2048 "
      "--hidden-size 2048 --padded-vocab-size 2048",
      "--nproc 2048: one program starts at most 1024 ranks; start more with mpirun, "
      "srun or torchrun");
  expect_refused("--launch ssh --nproc 2", "--launch 'ssh': expected one of threads, processes");
}

TEST_F(Layouts, WithoutExpertsToShareAreRefused) {
  expect_refused(
      "--expert-model-parallel-size 2",
      "--expert-model-parallel-size 2: the model has no experts; set --num-experts, or drop it");
}

TEST_F(Layouts, ThatSplitNothingEvenlyAreRefused) {
  expect_refused(
      "--tensor-model-parallel-size 4 --nproc 4",
      "--num-attention-heads 2 is not a multiple of --tensor-model-parallel-size 4: "
      "every tensor-parallel rank computes the same number of heads; change one of them");
  expect_refused("--tensor-model-parallel-size 2 --nproc 2 --ffn-hidden-size 31",
                 "--ffn-hidden-size 31 is not a multiple of --tensor-model-parallel-size 2: every "
                 "tensor-parallel rank computes a part of the MLP of the same width; change one of "
                 "them");
  expect_refused("--sequence-parallel --tensor-model-parallel-size 2 --nproc 2 --seq-length 7",
                 "--seq-length 7 is not a multiple of --tensor-model-parallel-size 2: with "
                 "--sequence-parallel every rank holds the same number of positions; change one of "
                 "them");
  expect_refused("--tensor-model-parallel-grid 2,2 --nproc 4 --micro-batch-size 1",
                 "--micro-batch-size 1 is not a multiple of 2, the side of "
                 "--tensor-model-parallel-grid 2,2: the grid's rows split the samples; change one "
                 "of them");
  expect_refused(
      "--tensor-model-parallel-grid 2,2 --nproc 4 --sequence-parallel",
      "--sequence-parallel and --tensor-model-parallel-grid exclude each other: the grid "
      "splits what sequence parallelism would split; drop --sequence-parallel");
  expect_refused("--tensor-model-parallel-grid 2,3 --nproc 6",
                 "--tensor-model-parallel-grid '2,3': the grid must be square, since its rows and "
                 "columns exchange parts of the same size: give 2,2 or 3,3");
  expect_refused(
      "--tensor-model-parallel-grid 2,2 --tensor-model-parallel-size 2 --nproc 4",
      "--tensor-model-parallel-grid 2,2 has 4 ranks, but --tensor-model-parallel-size is "
      "2: drop it, or set it to 4");
  expect_refused(
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
      "--distribute-saved-activations",
      "--distribute-saved-activations splits kept layer inputs over the tensor-parallel "
      "ranks, but --tensor-model-parallel-size is 1: raise it, or drop "
      "--distribute-saved-activations");
}

TEST_F(Layouts, WithSeveralFaultsNameThemAll) {
  expect_refused(
      "--tensor-model-parallel-size 4 --sequence-parallel --seq-length 6",
      "3 problems in the configuration:\n"
      "  - --tensor-model-parallel-size 4 takes 4 ranks, but this process runs alone: "
      "add --nproc 4, or start 4 processes with mpirun -n 4 (or srun, torchrun)\n"
      "  - --num-attention-heads 2 is not a multiple of --tensor-model-parallel-size 4: "
      "every tensor-parallel rank computes the same number of heads; change one of them\n"
      "  - --seq-length 6 is not a multiple of --tensor-model-parallel-size 4: with "
      "--sequence-parallel every rank holds the same number of positions; change one of "
      "them");
}

TEST_F(Layouts, AreDrawnByInspect) {
  const test::ProgramResult drawn = run("inspect --mesh --tensor-model-parallel-size 4");
  EXPECT_EQ(drawn.exit_code, 0) << drawn.error;
  EXPECT_EQ(drawn.out, R"(4 ranks: tensor 4 x data 1

            cp 0
pp 0  dp 0  [0 1 2 3]

rank = tp + TP (cp + CP (dp + DP pp)); [ ] holds tp 0, 1, ...

groups (number of size: members)
  tensor          1 of 4: {0 1 2 3}

tessera train takes this layout, with --nproc 4 or mpirun -n 4 (given a model that can be split so)
)");
}

// Neither verify nor inspect needs --nproc: they take the fewest ranks that hold all experts.
TEST_F(Layouts, ExpertsCountInTheNumberOfRanks) {
  const std::string model =
      " --num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 --micro-batch-size 1 "
      "--global-batch-size 4 --num-experts 4 --moe-router-topk 1 --moe-router-pre-softmax "
      "--disable-bias-linear --expert-model-parallel-size 4";
  const test::ProgramResult verified = run("verify" + model);
  EXPECT_EQ(verified.exit_code, 0) << verified.error;
  EXPECT_NE(verified.out.find("same: the layout computes what one rank does"), std::string::npos);
  const test::ProgramResult shown = run("inspect" + model);
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_NE(shown.out.find("elements of expert parameters: "), std::string::npos) << shown.out;
}

TEST_F(Layouts, ThatTrainRefusesAreDrawnWithTheReason) {
  const test::ProgramResult drawn =
      run("inspect --mesh --num-layers 2 --hidden-size 8 --num-attention-heads 2 --lr 1 "
          "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
          "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1 --nproc 8");
  EXPECT_EQ(drawn.exit_code, 0) << drawn.error;
  for (const char* part :
       {"experts: tensor 1 x expert 2 x data 2 x pipeline 2\n",
        "pp 1  dp 0  [4 5]      pp 1  edp 0  [4]   [5]\n", "tessera train refuses this layout:\n",
        "  - --expert-model-parallel-size 2"})
    EXPECT_NE(drawn.out.find(part), std::string::npos) << part << "\n" << drawn.out;
  const test::ProgramResult refused =
      run("inspect --mesh --tensor-model-parallel-size 4 --nproc 6");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.error.find("--nproc 6 is not a multiple of 4"), std::string::npos);
}

TEST_F(Layouts, TakeTheirModelFromAFolder) {
  const std::string folder = TESSERA_SOURCE_DIR "/tests/golden/data/qwen3";
  const test::ProgramResult drawn =
      run("inspect --mesh --load-hf " + folder + " --tensor-model-parallel-size 64");
  EXPECT_EQ(drawn.exit_code, 0) << drawn.error;
  EXPECT_NE(drawn.out.find("is not a multiple of --tensor-model-parallel-size 64"),
            std::string::npos)
      << drawn.out;
}

TEST_F(Layouts, HaveTheVocabularyOfATokenizerFile) {
  const std::string model =
      "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 ";
  const std::string tokenizer = "--tokenizer-type HuggingFaceTokenizer --tokenizer-model ";
  write_file_atomically(temp_ / "text.txt", "a few words");
  ASSERT_EQ(run("train-tokenizer --input text.txt --vocab-size 258 --output t.json").exit_code, 0);
  const test::ProgramResult mesh =
      run("inspect --mesh " + model + tokenizer + "t.json --print-config");
  EXPECT_NE(mesh.out.find("padded-vocab-size: 258\n"), std::string::npos) << mesh.out << mesh.error;
  const test::ProgramResult schedule =
      run("inspect --schedule --pipeline-model-parallel-size 2 " + model + tokenizer + "t.json");
  EXPECT_EQ(schedule.exit_code, 0) << schedule.error;
  const test::ProgramResult given = run("inspect --schedule --pipeline-model-parallel-size 2 " +
                                        model + "--padded-vocab-size 258");
  EXPECT_EQ(schedule.out, given.out) << given.error;
  for (const char* how : {"inspect --mesh ", "inspect --schedule "}) {
    const test::ProgramResult refused = run(how + model + tokenizer + "none.json");
    EXPECT_EQ(refused.exit_code, 2) << how;
    EXPECT_NE(refused.error.find("none.json"), std::string::npos) << refused.error;
  }
}

TEST_F(Layouts, OfAMeshPrintTheTrainingsConfiguration) {
  const test::ProgramResult printed =
      run("inspect --mesh --tensor-model-parallel-size 2 --nproc 2 --lr 0.5 --print-config");
  EXPECT_EQ(printed.exit_code, 0) << printed.error;
  for (const char* part : {"# tessera train\n", "tensor-model-parallel-size: 2\n", "lr: 0.5\n"})
    EXPECT_NE(printed.out.find(part), std::string::npos) << part << "\n" << printed.out;
}

}  // namespace
}  // namespace tessera
