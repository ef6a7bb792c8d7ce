// A checkpoint of every version of the format is kept here and must load for ever. Version 1 was
// saved by four ranks (tensor 2 x data 2, ZeRO-1) in bf16 after three steps:
//
//   tessera train --num-layers 2 --hidden-size 16 --ffn-hidden-size 32 --num-attention-heads 4
//     --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 4
//     --lr 1e-2 --train-iters 3 --mock-data --tokenizer-type NullTokenizer --vocab-size 50
//     --eval-iters 0 --log-interval 1 --save-interval 3 --normalization RMSNorm --swiglu
//     --disable-bias-linear --bf16 --nproc 4 --tensor-model-parallel-size 2
//     --use-distributed-optimizer --save version_1
#include <gtest/gtest.h>

#include "tessera/config/parse.h"
#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

const fs::path kFolder = fs::path(TESSERA_SOURCE_DIR) / "tests/train/data/checkpoint_version_1";

std::string digest_of_all(Checkpoint& checkpoint) {
  std::string all;
  for (const auto& [name, bytes] : test::saved_tensors(checkpoint)) all += name + bytes;
  return compute_digest(all).to_string();
}

TEST(Fixture, Version1IsWhatItWas) {
  std::optional<Checkpoint> checkpoint = Checkpoint::find(kFolder);
  ASSERT_TRUE(checkpoint.has_value());
  checkpoint->verify();
  EXPECT_EQ(checkpoint->iteration(), 3);
  EXPECT_EQ(checkpoint->counter("consumed_samples"), 12);
  EXPECT_EQ(checkpoint->manifest().tensors.size(), 21u * 4u);  // weights, two moments, low bits
  EXPECT_EQ(digest_of_all(*checkpoint), "bc23e3c4a537235e19128ca067a7e139");
}

// Into one rank, and saved again from there: the same state.
TEST(Fixture, Version1Loads) {
  Checkpoint checkpoint(iteration_folder(kFolder, 3));
  Options options = options_from_yaml(checkpoint.config(), "config.yaml");
  options.parallel = {};
  resolve(options);
  Session session(session_options(options, true), {0, 1, 2, make_self_communicator()});
  load_weights(session, checkpoint);
  load_optimizer(session, checkpoint);
  EXPECT_EQ(progress_of(checkpoint).consumed_samples, 12);
  EXPECT_EQ(session.optimizer().step_state(session.context()).step, 3);
  const test::TempFolder temp;
  Saver saver(session, {temp.path()}, [](const std::string&) {});
  saver.request({3, checkpoint.manifest().state, {{kConfigFile, checkpoint.config()}}});
  Checkpoint again(iteration_folder(temp.path(), 3));
  EXPECT_EQ(digest_of_all(again), digest_of_all(checkpoint));
}

}  // namespace
}  // namespace tessera
