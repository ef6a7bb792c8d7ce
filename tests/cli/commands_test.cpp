// The commands as a user runs them: help, versions, logs, files.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/safetensors_reader.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

class Commands : public testing::Test {
 protected:
  test::ProgramResult run(const std::vector<std::string>& args) {
    return test::run_program(TESSERA_PROGRAM, args, temp_.path());
  }
  void make_data() {
    std::ofstream(temp_ / "text.jsonl")
        << R"({"text": "the quick brown fox jumps over the lazy dog"})"
           "\n"
        << R"({"text": "pack my box with five dozen liquor jugs"})"
           "\n";
    const test::ProgramResult result =
        run({"preprocess", "--input", "text.jsonl", "--output-prefix", "data", "--append-eod"});
    ASSERT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.out.rfind("2 documents, 84 tokens", 0), 0u) << result.out;
  }
  std::vector<std::string> train(const std::vector<std::string>& more) {
    std::vector<std::string> args{"train",
                                  "--data-path",
                                  "data_text_document",
                                  "--split",
                                  "1,0,0",
                                  "--num-layers",
                                  "2",
                                  "--hidden-size",
                                  "16",
                                  "--num-attention-heads",
                                  "2",
                                  "--seq-length",
                                  "16",
                                  "--max-position-embeddings",
                                  "32",
                                  "--micro-batch-size",
                                  "2",
                                  "--global-batch-size",
                                  "4",
                                  "--lr",
                                  "1e-2",
                                  "--eval-iters",
                                  "0",
                                  "--log-interval",
                                  "1"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  test::TempFolder temp_;
};

TEST_F(Commands, HelpAndVersion) {
  const test::ProgramResult top = run({});
  EXPECT_EQ(top.exit_code, 0);
  for (const char* command : {"train", "preprocess", "merge-data", "split-data", "generate",
                              "evaluate", "inspect", "convert", "tokenize", "train-tokenizer"}) {
    EXPECT_NE(top.out.find(command), std::string::npos);
    const test::ProgramResult help = run({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_GT(help.out.size(), 300u);
  }
  EXPECT_EQ(run({"--version"}).out.rfind("tessera ", 0), 0u);
}

TEST_F(Commands, TrainSaveResumeGenerateEvaluate) {
  make_data();
  const test::ProgramResult first = run(train(
      {"--train-iters", "6", "--save", "run", "--save-interval", "3", "--exit-interval", "3"}));
  ASSERT_EQ(first.exit_code, 0) << first.error;
  for (const char* field :
       {" iteration        3/       6 | consumed samples:           12 |",
        "elapsed time per iteration", "learning rate:", "global batch size:     4", "lm loss:",
        "loss scale:", "grad norm:", "number of skipped iterations:", "number of nan iterations:"})
    EXPECT_NE(first.error.find(field), std::string::npos) << field << "\n" << first.error;
  const test::ProgramResult second =
      run(train({"--train-iters", "6", "--save", "run", "--save-interval", "3", "--load", "run"}));
  ASSERT_EQ(second.exit_code, 0) << second.error;
  EXPECT_NE(second.error.find("continuing at iteration 3"), std::string::npos);
  EXPECT_EQ(read_text_file(temp_ / "run/latest_checkpointed_iteration.txt"), "6\n");

  std::ifstream metrics(temp_ / "run/metrics.jsonl");
  std::int64_t lines = 0;
  for (std::string line; std::getline(metrics, line); ++lines)
    EXPECT_EQ(Json::parse(line)["iteration"], lines + 1);
  EXPECT_EQ(lines, 6);

  const test::ProgramResult text =
      run({"generate", "--load", "run", "--prompt", "the ", "--max-new-tokens", "8"});
  EXPECT_EQ(text.exit_code, 0) << text.error;
  EXPECT_EQ(text.out.rfind("the ", 0), 0u);
  EXPECT_EQ(run({"generate", "--load", "run", "--prompt", "the ", "--max-new-tokens", "8"}).out,
            text.out);
  EXPECT_EQ(run({"generate", "--load", "run", "--prompt", "the "}).exit_code, 0)
      << "as many tokens as fit";

  // Weights are converted for use in another type.
  const test::ProgramResult rounded = run({"generate", "--load", "run", "--prompt", "the ",
                                           "--max-new-tokens", "8", "--params-dtype", "f64"});
  EXPECT_EQ(rounded.out, text.out) << rounded.error;

  const test::ProgramResult loss =
      run({"evaluate", "--load", "run", "--data-path", "data_text_document", "--eval-iters", "2"});
  ASSERT_EQ(loss.exit_code, 0) << loss.error;
  EXPECT_GT(Json::parse(loss.out)["loss"], 0.5);
  std::ofstream(temp_ / "tokens.jsonl") << R"({"tokens": [116, 104, 101, 32]})"
                                           "\n"
                                        << R"({"tokens": [5, 6]})"
                                           "\n";
  const test::ProgramResult scored =
      run({"evaluate", "--load", "run", "--tokens", "tokens.jsonl", "--output", "scores.jsonl"});
  ASSERT_EQ(scored.exit_code, 0) << scored.error;
  std::ifstream scores(temp_ / "scores.jsonl");
  std::string line;
  std::getline(scores, line);
  EXPECT_EQ(Json::parse(line)["token_logprobs"].size(), 3u);
  const auto refused = [&](const char* output, const char* message) {
    const test::ProgramResult result =
        run({"evaluate", "--load", "run", "--tokens", "tokens.jsonl", "--output", output});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.error.find(message), std::string::npos) << result.error;
  };
  refused("scores.jsonl", "is there already: give --overwrite");
  refused("tokens.jsonl", "is an input, too");
}

TEST_F(Commands, DumpStepWritesWhatAnotherFrameworkNeeds) {
  make_data();
  const test::ProgramResult result = run(train(
      {"--train-iters", "2", "--dump-step", "dump", "--attention-dropout", "0", "--hidden-dropout",
       "0", "--swiglu", "--ffn-hidden-size", "24", "--disable-bias-linear", "--normalization",
       "RMSNorm", "--position-embedding-type", "rope"}));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(parse_json(read_text_file(temp_ / "dump/initial/config.json"), "config")["model_type"],
            "llama");
  const SafetensorsFile initial(temp_ / "dump/initial/model.safetensors");
  const SafetensorsFile gradients(temp_ / "dump/gradients.safetensors");
  const SafetensorsFile updated(temp_ / "dump/updated.safetensors");
  EXPECT_EQ(initial.names(), gradients.names());
  EXPECT_EQ(initial.names(), updated.names());
  EXPECT_TRUE(initial.contains("model.layers.1.mlp.gate_proj.weight"));
  const SafetensorsFile batch(temp_ / "dump/batch.safetensors");
  EXPECT_EQ(batch.shape("tokens"), Shape({4, 16}));
  EXPECT_GT(parse_json(read_text_file(temp_ / "dump/step.json"), "step")["loss"], 4.0);
}

TEST_F(Commands, DumpStepWritesExpertsUnderOurNames) {
  make_data();
  const test::ProgramResult result =
      run(train({"--train-iters", "1", "--dump-step", "dump", "--attention-dropout", "0",
                 "--hidden-dropout", "0", "--disable-bias-linear", "--num-experts", "3",
                 "--moe-router-topk", "1", "--moe-router-pre-softmax"}));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const SafetensorsFile gradients(temp_ / "dump/gradients.safetensors");
  EXPECT_TRUE(gradients.contains("layers.1.mlp.router.weight"));
  EXPECT_EQ(gradients.shape("layers.1.mlp.experts.up.weight")[0], 3);
}

TEST_F(Commands, ProfileWritesATraceAndTellsWhereTheTimeWent) {
  make_data();
  const test::ProgramResult result =
      run(train({"--train-iters", "3", "--profile", "--profile-step-start", "1",
                 "--profile-step-end", "3", "--profile-file", "out/trace.json"}));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  for (const char* part :
       {"wrote the trace of iterations 2 to 3 to 'out/trace.json'", "ms/step", "block backward"})
    EXPECT_NE(result.error.find(part), std::string::npos) << part << "\n" << result.error;
  const Json trace = parse_json(read_text_file(temp_ / "out/trace.json"), "trace");
  std::map<std::string, int> counts;
  for (const Json& event : trace["traceEvents"]) counts[event["name"]] += 1;
  EXPECT_EQ(counts["step 2"], 1);
  EXPECT_EQ(counts["block forward 1"], 4) << "2 steps of 2 microbatches";
  EXPECT_EQ(counts["step 1"], 0);
}

TEST_F(Commands, ProfileRefusesStepsAndPlacesThatCannotBe) {
  make_data();
  const test::ProgramResult late = run(train({"--train-iters", "3", "--profile"}));
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_NE(late.error.find("--profile-step-start 10 is never passed"), std::string::npos);
  const test::ProgramResult place = run(
      train({"--train-iters", "3", "--profile", "--profile-step-start", "1", "--profile-step-end",
             "2", "--profile-file", "text.jsonl", "--save", "run", "--save-interval", "1"}));
  EXPECT_EQ(place.exit_code, 2);
  EXPECT_NE(place.error.find("--profile-file text.jsonl"), std::string::npos) << place.error;
  EXPECT_FALSE(fs::exists(temp_ / "run"));
}

TEST_F(Commands, BenchReplacesNoFileThatIsNoTrace) {
  std::ofstream(temp_ / "notes.txt") << "mine";
  const test::ProgramResult refused = run({"bench", "train", "--profile", "notes.txt"});
  EXPECT_EQ(refused.exit_code, 2) << refused.error;
  EXPECT_NE(refused.error.find("something else than a trace"), std::string::npos);
}

TEST_F(Commands, PrintConfigFeedsBack) {
  make_data();
  const test::ProgramResult printed = run(train({"--train-iters", "2", "--print-config"}));
  ASSERT_EQ(printed.exit_code, 0) << printed.error;
  std::ofstream(temp_ / "run.yaml") << printed.out;
  EXPECT_EQ(run({"train", "--config", "run.yaml", "--print-config"}).out, printed.out);
  EXPECT_EQ(run({"train", "--config", "run.yaml"}).exit_code, 0);
}

TEST_F(Commands, InspectShowsParametersAndMemory) {
  const test::ProgramResult result =
      run({"inspect", "--num-layers", "2", "--hidden-size", "16", "--num-attention-heads", "2",
           "--seq-length", "16", "--max-position-embeddings", "16", "--micro-batch-size", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  for (const char* part :
       {"layers.1.mlp.down.weight", "total", "activations", "optimizer", "FLOPs per token",
        "memory of one rank (cpu, f32, microbatch of 2 x 16 tokens)"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace tessera
