#include "tessera/config/rules/mesh_check.h"

#include <gtest/gtest.h>

#include "tessera/base/files.h"
#include "tests/config/command_lines.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::expect_input_error;

ParsedCommand inspect_mesh(std::string_view line) {
  return test::parse("inspect", "--mesh " + std::string(line));
}

MeshCheck check_line(std::string_view line) {
  ParsedCommand parsed = inspect_mesh(line);
  return check_mesh(parsed);
}

TEST(MeshCheck, TakesTheFlagsOfTrain) {
  const ParsedCommand parsed = inspect_mesh(std::string(test::kTraining) + " --nproc 4");
  EXPECT_EQ(parsed.command, Command::inspect);
  EXPECT_TRUE(parsed.mesh);
  EXPECT_EQ(parsed.options.schedule.lr, 1e-3);
  EXPECT_FALSE(test::parse("inspect", "--mesh=false --num-layers 2").mesh);
  expect_input_error([] { inspect_mesh("--lrr 1"); }, {"--lrr: unknown flag"});
  expect_input_error([] { test::parse("inspect", "--lr 1"); }, {"a flag of tessera train"});
}

TEST(MeshCheck, TakesTheConfigurationOfATraining) {
  const test::TempFolder folder;
  write_file_atomically(folder / "run.yaml", "lr: 1\ntensor-model-parallel-size: 2\n");
  EXPECT_EQ(check_line("--config " + (folder / "run.yaml").string()).ranks, 2);
  write_file_atomically(folder / "mesh.yaml", "mesh: true\n");
  expect_input_error([&] { test::parse("inspect", "--config " + (folder / "mesh.yaml").string()); },
                     {"mesh works on the command line only"});
}

TEST(MeshCheck, StartsFromTheFewestRanks) {
  EXPECT_EQ(check_line("").ranks, 1);
  EXPECT_EQ(check_line("--nproc 8").ranks, 8);
  EXPECT_EQ(check_line("--tensor-model-parallel-grid 3,3").ranks, 9);
  EXPECT_EQ(check_line("--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2").ranks, 8);
  EXPECT_EQ(check_line("--tensor-model-parallel-size 4 --expert-model-parallel-size 6 "
                       "--expert-tensor-parallel-size 1 --pipeline-model-parallel-size 2")
                .ranks,
            24);
}

TEST(MeshCheck, CountsCopiesForThoseRanks) {
  ParsedCommand parsed = inspect_mesh(
      "--tensor-model-parallel-size 2 --nproc 8 "
      "--micro-batch-size 3");
  check_mesh(parsed);
  EXPECT_EQ(parsed.options.parallel.data, 4);
  EXPECT_EQ(parsed.options.train.global_batch_size, 12);
}

TEST(MeshCheck, SaysWhatTrainRefuses) {
  EXPECT_TRUE(check_line("--tensor-model-parallel-size 4 --sequence-parallel").refusals.empty());
  EXPECT_TRUE(check_line("--tensor-model-parallel-size 512").refusals.empty()) << "no model yet";
  EXPECT_TRUE(check_line(std::string(test::kTraining) + " --tensor-model-parallel-size 4 --nproc 4")
                  .refusals.empty());
  EXPECT_EQ(
      check_line("--tensor-model-parallel-size 3 --pipeline-model-parallel-size 2 "
                 "--num-layers 2 --hidden-size 12 --num-attention-heads 4 --seq-length 8")
          .refusals,
      (std::vector<std::string>{
          "--num-attention-heads 4 is not a multiple of --tensor-model-parallel-size 3: every "
          "tensor-parallel rank computes the same number of heads; change one of them"}));
}

TEST(MeshCheck, SaysWhatTrainRefusesOfASchedule) {
  const auto refusals = [](const std::string& line) {
    ParsedCommand parsed =
        test::parse("inspect", "--schedule " + std::string(test::kTraining) + " " + line);
    return check_schedule(parsed).refusals;
  };
  EXPECT_TRUE(refusals("--pipeline-model-parallel-size 2").empty());
  EXPECT_TRUE(refusals("--pipeline-model-parallel-size 2 --context-parallel-size 2").empty());
  EXPECT_EQ(refusals("--pipeline-model-parallel-size 2 --context-parallel-size 3").size(), 1u);
  expect_input_error([&] { refusals("--pipeline-model-parallel-size 3"); },
                     {"4 layers over 3 pipeline ranks"});
}

TEST(MeshCheck, RefusesWhatCannotBeDrawn) {
  expect_input_error([] { check_line("--tensor-model-parallel-size 4 --nproc 6"); },
                     {"--nproc 6 is not a multiple of 4"});
  expect_input_error(
      [] {
        check_line(
            "--tensor-model-parallel-size 2 --context-parallel-size 3 "
            "--pipeline-model-parallel-size 2 --nproc 8");
      },
      {"--nproc 8 is not a multiple of 12, the ranks that one model takes "
       "(--tensor-model-parallel-size 2 x --context-parallel-size 3 x "
       "--pipeline-model-parallel-size 2): set --nproc 12"});
  expect_input_error(
      [] { check_line("--tensor-model-parallel-size 2 --expert-model-parallel-size 3 --nproc 8"); },
      {"--nproc 8 is not a multiple of 6, the ranks that its experts take "
       "(--expert-tensor-parallel-size 2 x --expert-model-parallel-size 3 x "
       "--pipeline-model-parallel-size 1): set --nproc 6"});
  expect_input_error(
      [] { check_line("--tensor-model-parallel-size 1048576 --context-parallel-size 1048576"); },
      {"take 1099511627776 ranks, more than the 1048576"});
}

}  // namespace
}  // namespace tessera
