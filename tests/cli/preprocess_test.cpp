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
  const test::ProgramResult again =
      run("preprocess --input *.jsonl --output-prefix out --on-error skip");
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.error.find("--overwrite"), std::string::npos) << again.error;
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
