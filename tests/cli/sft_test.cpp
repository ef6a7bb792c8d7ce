// From a file of conversations to a model that was tuned on them, as a user does it.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/run_program.h"

namespace tessera {
namespace {

class SftProgram : public testing::Test {
 protected:
  SftProgram() {
    std::ofstream(temp_ / "t.json") << R"({"special_tokens": ["<|endoftext|>"], "roles": {
               "user": {"prefix": "Q", "suffix": "\n"},
               "assistant": {"prefix": "A", "suffix": "<|endoftext|>"}}})";
    std::ofstream chats(temp_ / "chats.jsonl");
    for (int i = 0; i < 60; ++i)
      chats << R"({"messages": [{"role": "user", "content": ")" << std::string(i % 7, 'x') + "ab"
            << R"("}, {"role": "assistant", "content": "yes"}]})" << '\n';
  }
  test::ProgramResult run(const std::string& line) {
    return test::run_line(TESSERA_PROGRAM, line, temp_.path());
  }
  // The "lm loss" lines of a log.
  static std::string losses(const std::string& log) {
    std::string found;
    for (std::size_t at = 0; (at = log.find("lm loss: ", at)) != std::string::npos; ++at)
      found += log.substr(at, log.find('|', at) - at) + "\n";
    return found;
  }

  test::TempFolder temp_;
};

TEST_F(SftProgram, PreprocessesTrainsAndGoesOn) {
  const test::ProgramResult made =
      run("preprocess --input chats.jsonl --output-prefix chats --chat-template t.json");
  ASSERT_EQ(made.exit_code, 0) << made.error;
  EXPECT_EQ(made.out.rfind("60 documents, ", 0), 0u) << made.out;
  const std::string train =
      "train --sft --data-path chats_messages_document --split 8,2,0 --tokenizer-type "
      "ByteTokenizer "
      "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 48 "
      "--micro-batch-size 2 --global-batch-size 4 --lr 1e-2 --train-iters 8 --eval-iters 1 "
      "--eval-interval 8 --log-interval 1 --threads 1 --save-interval 4 ";
  const test::ProgramResult straight = run(train + "--save straight");
  ASSERT_EQ(straight.exit_code, 0) << straight.error;
  ASSERT_EQ(run(train + "--save stopped --exit-interval 4").exit_code, 0);
  const test::ProgramResult resumed = run(train + "--save stopped --load stopped");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_EQ(resumed.error.find("the data has changed"), std::string::npos) << resumed.error;
  const std::string all = losses(straight.out + straight.error);
  const std::string rest = losses(resumed.out + resumed.error);
  ASSERT_FALSE(rest.empty()) << resumed.out << resumed.error;
  EXPECT_TRUE(all.ends_with(rest)) << all << "\n" << rest;
}

TEST_F(SftProgram, RefusesBeforeTheRun) {
  ASSERT_EQ(
      run("preprocess --input chats.jsonl --output-prefix x --chat-template t.json").exit_code, 0);
  std::ofstream(temp_ / "text.jsonl") << "{\"text\": \"some text\"}\n";
  ASSERT_EQ(run("preprocess --input text.jsonl --output-prefix x").exit_code, 0);
  const test::ProgramResult plain =
      run("train --sft --data-path x_text_document --num-layers 1 --hidden-size 16 "
          "--num-attention-heads 2 --seq-length 8 --micro-batch-size 1 --lr 1e-2 --train-iters 1");
  EXPECT_EQ(plain.exit_code, 2);
  EXPECT_NE(plain.error.find("x_text_mask.idx' is missing"), std::string::npos) << plain.error;
}

}  // namespace
}  // namespace tessera
