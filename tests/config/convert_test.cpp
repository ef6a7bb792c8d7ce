// The command lines of convert, and of inspect for checkpoints.
#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tessera/config/print.h"
#include "tests/config/command_lines.h"

namespace tessera {
namespace {

using test::accept;

std::string refusal(std::string_view command, std::string_view line) {
  try {
    accept(command, line);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_refused_config(std::string_view command, std::string_view line, std::string_view why) {
  const std::string text = refusal(command, line);
  EXPECT_NE(text.find(why), std::string::npos) << line << "\n" << text;
}

TEST(ConvertOptions, TakesOneDirection) {
  const ParsedCommand in = accept("convert", "--from-hf model --save run/ckpt --bf16");
  EXPECT_EQ(in.convert.from_hf, "model");
  EXPECT_EQ(in.options.train.save, "run/ckpt");
  EXPECT_EQ(in.options.model.dtype, DType::bf16);
  const ParsedCommand out =
      accept("convert", "--load run/ckpt --ckpt-step 7 --to-hf model --max-shard-size 2GiB");
  EXPECT_EQ(out.convert.to_hf, "model");
  EXPECT_EQ(out.options.train.ckpt_step, 7);
  EXPECT_EQ(out.convert.max_shard_bytes, std::int64_t{2} << 30);
  const ParsedCommand trt = accept("convert", "--load run/ckpt --to-trtllm trt --tp 4");
  EXPECT_EQ(trt.convert.ranks, 4);
  EXPECT_EQ(trt.convert.max_shard_bytes, 5'000'000'000);
}

TEST(ConvertOptions, RefusesWhatGoesNowhere) {
  expect_refused_config("convert", "--load run", "nothing to convert");
  expect_refused_config("convert", "--from-hf model", "--from-hf needs --save");
  expect_refused_config("convert", "--from-hf model --save a --load b", "and no --load");
  expect_refused_config("convert", "--to-hf model", "--to-hf needs --load");
  expect_refused_config("convert", "--to-trtllm model --load a --save b",
                        "--to-trtllm needs --load");
  expect_refused_config("convert", "--to-hf a --to-trtllm b --load c", "exclude each other");
  expect_refused_config("convert", "--to-hf a --load c --tp 2",
                        "has no effect: it belongs to --to-trtllm");
  expect_refused_config("convert", "--from-hf a --save c --max-shard-size 1GB",
                        "belongs to --to-hf");
  expect_refused_config("convert", "--from-hf a --save c --ckpt-step 1", "belongs to --load");
  expect_refused_config("convert", "--load-hf a --to-hf b", "not of tessera convert");
  expect_refused_config("convert", "--load a --to-hf b --max-shard-size 5XB", "such as 500MB");
  expect_refused_config("convert", "--load a --to-trtllm b --tp 0", "--tp");
  expect_refused_config("convert", "--load a --to-hf b --num-layers 2", "not of tessera convert");
}

// The same letters are what other programs call a flag of ours.
TEST(ConvertOptions, TrainersAreToldWhatTheyMean) {
  expect_refused_config("train", "--tp 2", "did you mean --tensor-model-parallel-size?");
  expect_refused_config("train", "--to-hf a", "a flag of tessera convert");
}

TEST(ConvertOptions, ThePrintedTypeIsOneThatWasGiven) {
  const std::string without = print_config(accept("convert", "--from-hf a --save b"));
  EXPECT_EQ(without.find("params-dtype"), std::string::npos) << without;
  const std::string with = print_config(accept("convert", "--load a --to-hf b --bf16"));
  EXPECT_NE(with.find("params-dtype: bf16"), std::string::npos) << with;
  EXPECT_NE(with.find("max-shard-size: 5GB"), std::string::npos) << with;
}

TEST(InspectOptions, ACheckpointMayComeFirst) {
  const ParsedCommand parsed = accept("inspect", "run/ckpt --verify --diff other --ckpt-step 3");
  EXPECT_EQ(parsed.options.train.load, "run/ckpt");
  EXPECT_TRUE(parsed.inspect.verify);
  EXPECT_EQ(parsed.inspect.diff, "other");
  EXPECT_EQ(parsed.options.train.ckpt_step, 3);
  EXPECT_TRUE(accept("inspect", "--load run/ckpt --tensors").inspect.tensors);
  expect_refused_config("inspect", "run/ckpt --load other", "--load is given twice");
  expect_refused_config("inspect", "--load run/ckpt other", "unexpected argument 'other'");
  expect_refused_config("inspect", "--load-hf model --verify",
                        "has no effect: it belongs to --load");
  expect_refused_config("generate", "run/ckpt", "unexpected argument 'run/ckpt'");
}

}  // namespace
}  // namespace tessera
