// Preprocess, merge-data and split-data as a user runs them.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/run_program.h"

namespace tessera {
namespace {

class PreprocessProgram : public testing::Test {
 protected:
  PreprocessProgram() {
    std::ofstream(temp_ / "a.jsonl") << "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
    std::ofstream(temp_ / "b.jsonl") << "{\"text\": \"three\"}\nbad\n{\"text\": \"four\"}\n";
  }
  test::ProgramResult run(const std::string& line) {
    return test::run_line(TESSERA_PROGRAM, line, temp_.path());
  }
  std::string file(const std::string& name) { return read_text_file(temp_ / name); }

  test::TempFolder temp_;
};

TEST_F(PreprocessProgram, SkipsAndTells) {
  const test::ProgramResult fatal = run("preprocess --input *.jsonl --output-prefix out");
  EXPECT_EQ(fatal.exit_code, 2);
  EXPECT_NE(fatal.error.find("'b.jsonl' line 2: not valid JSON"), std::string::npos) << fatal.error;
  const test::ProgramResult skipped =
      run("preprocess --input *.jsonl --output-prefix out --on-error skip --save-errors "
          "--workers 3");
  EXPECT_EQ(skipped.exit_code, 0) << skipped.error;
  EXPECT_EQ(skipped.out, "4 documents, 15 tokens, 71 bytes read, 1 bad ones skipped\n");
  EXPECT_NE(skipped.error.find("skipped: 'b.jsonl' line 2"), std::string::npos) << skipped.error;
  EXPECT_NE(file("out.errors.jsonl").find("\"line\":2"), std::string::npos);
  // The list of what was skipped is among the inputs now.
  const test::ProgramResult lost =
      run("preprocess --input *.jsonl --output-prefix out --on-error skip --overwrite");
  EXPECT_EQ(lost.exit_code, 2);
  EXPECT_NE(lost.error.find("out.errors.jsonl' is an input, too"), std::string::npos) << lost.error;
  const test::ProgramResult again =
      run("preprocess --input a.jsonl b.jsonl --output-prefix out --on-error skip");
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.error.find("--overwrite"), std::string::npos) << again.error;
}

TEST_F(PreprocessProgram, TellsThatAFileGrewBeyondTheLimit) {
  std::ofstream(temp_ / "long.txt") << std::string(1 << 20, 'x');
  const std::string line = std::string("ulimit -f 64 && exec '") + TESSERA_PROGRAM +
                           "' preprocess --input long.txt --output-prefix out";
  const test::ProgramResult result = test::run_program("/bin/sh", {"-c", line}, temp_.path());
  EXPECT_EQ(result.exit_code, 1) << result.error;
  EXPECT_NE(result.error.find("text.bin': File too large"), std::string::npos) << result.error;
}

// The run itself changes its second input: a warning about the first goes there.
TEST_F(PreprocessProgram, NoticesThatAnInputChanged) {
  std::ofstream first(temp_ / "first.jsonl");
  first << "bad\n";
  for (int i = 0; i < 2000; ++i) first << "{\"text\": \"" << std::string(1000, 'x') << "\"}\n";
  first.close();
  std::ofstream(temp_ / "log.jsonl") << "{\"text\": \"one\"}\n";
  const std::string line = std::string("exec '") + TESSERA_PROGRAM +
                           "' preprocess --input first.jsonl log.jsonl --output-prefix out "
                           "--on-error skip --workers 1 --commit-interval 500KB 2>> log.jsonl";
  const test::ProgramResult result = test::run_program("/bin/sh", {"-c", line}, temp_.path());
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_NE(file("log.jsonl").find("'log.jsonl' changed while it was read: it had 16 bytes, has"),
            std::string::npos)
      << file("log.jsonl");
  for (const auto& entry : fs::directory_iterator(temp_.path()))
    EXPECT_NE(entry.path().filename().string().rfind("out", 0), 0u) << entry.path();
}

TEST_F(PreprocessProgram, MergesAndSplits) {
  ASSERT_EQ(run("preprocess --input a.jsonl --output-prefix a --append-eod").exit_code, 0);
  const test::ProgramResult merged =
      run("merge-data --input a_text_document a_text_document.idx --output-prefix twice");
  EXPECT_EQ(merged.exit_code, 0) << merged.error;
  EXPECT_EQ(merged.out, "'twice' has 4 documents, 4 sequences, 16 tokens\n");
  EXPECT_EQ(file("twice.bin"), file("a_text_document.bin") + file("a_text_document.bin"));
  const test::ProgramResult split =
      run("split-data --input twice --partitions 2 --output-prefix half");
  EXPECT_EQ(split.exit_code, 0) << split.error;
  EXPECT_EQ(split.out, "2 pairs, 'half_0' to 'half_1'\n");
  for (const char* half : {"half_0", "half_1"})
    for (const char* ending : {".bin", ".idx"})
      EXPECT_EQ(file(std::string(half) + ending), file(std::string("a_text_document") + ending));
  const test::ProgramResult many =
      run("split-data --input twice --partitions 5 --output-prefix part");
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_NE(many.error.find("more than the 4 documents"), std::string::npos) << many.error;
}

}  // namespace
}  // namespace tessera
