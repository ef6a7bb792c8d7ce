#include "tessera/checkpoint/inspect_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/checkpoint/diff_checkpoints.h"
#include "tessera/checkpoint/verify_checkpoint.h"
#include "tests/checkpoint/made_checkpoint.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

TEST(InspectCheckpoint, SaysWhatIsThere) {
  const test::TempFolder temp;
  test::Made made;
  made.slices = 2;
  const Checkpoint checkpoint = test::made_checkpoint(temp / "saved", test::small_model(), made);
  const std::string text = checkpoint_text(checkpoint, {32, false});
  expect_has(text, "iteration    3\n");
  expect_has(text, "consumed     24 samples of 32 tokens, 768 tokens\n");
  expect_has(text, "saved by     ranks 2, tensor 2\n");
  // V h + 2 (2 h + q, k, v, out + gate, up, down) + h + V h, in four bytes each
  const int parameters = 88 + 2 * (16 + 64 + 32 + 32 + 64 + 3 * 96) + 8 + 88;
  expect_has(text, fmt::format("weights      21 tensors, f32, {} bytes\n", 4 * parameters));
  expect_has(text, fmt::format("exp_avg      21 tensors, f32, {} bytes\n", 4 * parameters));
  expect_has(text, "  optimizer-00000.safetensors ");
  EXPECT_EQ(text.find("layers.0"), std::string::npos);
  const std::string all = checkpoint_text(checkpoint, {0, true});
  expect_has(all, "consumed     24 samples\n");
  expect_has(all, "'layers.0.mlp.down.weight' f32 [8, 12]\n    [8, 6] at [0, 0]: ");
  expect_has(all, "[8, 6] at [0, 6]: 'model-00000.safetensors', byte ");
}

TEST(VerifyCheckpoint, NamesFileBytesAndTensors) {
  const test::TempFolder temp;
  const Checkpoint checkpoint = test::made_checkpoint(temp / "saved", test::small_model());
  EXPECT_TRUE(find_damage(checkpoint).empty());
  expect_has(damage_text(checkpoint, {}), "all is well: 3 files");
  const auto size = fs::file_size(checkpoint.path() / "optimizer-00000.safetensors");
  test::damage(checkpoint.path() / "optimizer-00000.safetensors",
               static_cast<std::int64_t>(size) - 1);
  const std::vector<Damage> found = find_damage(checkpoint);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].file, "optimizer-00000.safetensors");
  EXPECT_EQ(found[0].begin, 0u);
  EXPECT_EQ(found[0].end, size);
  EXPECT_EQ(found[0].tensors.size(), 21u);
  EXPECT_EQ(found[0].tensors[0], "exp_avg.embedding.word.weight");
  expect_has(damage_text(checkpoint, found), "DAMAGED: 'optimizer-00000.safetensors', bytes 0 to ");
}

TEST(VerifyCheckpoint, FindsAllThatIsDamaged) {
  const test::TempFolder temp;
  const Checkpoint checkpoint = test::made_checkpoint(temp / "saved", test::small_model());
  test::damage(checkpoint.path() / "config.yaml", 0);
  fs::resize_file(checkpoint.path() / "model-00000.safetensors", 100);
  fs::remove(checkpoint.path() / "optimizer-00000.safetensors");
  const std::vector<Damage> found = find_damage(checkpoint);
  ASSERT_EQ(found.size(), 3u);
  expect_has(found[0].reason, "has 100 bytes, but was saved with");
  expect_has(found[1].reason, "cannot read");
  EXPECT_TRUE(found[2].tensors.empty());
}

// Of a large file only the tensors of the damaged block are named.
TEST(VerifyCheckpoint, OtherBlocksStayGood) {
  const test::TempFolder temp;
  ModelOptions model = test::small_model();
  model.vocab_size = 300'000;  // two blocks and more for each of the two tables
  const Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  const TensorSlice& output = checkpoint.tensor("output.weight").slices[0];
  test::damage(checkpoint.path() / "model-00000.safetensors",
               static_cast<std::int64_t>(output.at) + 5'000'000);
  const std::vector<Damage> found = find_damage(checkpoint);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tensors, std::vector<std::string>{"output.weight"});
  EXPECT_EQ(found[0].begin % kDigestBlock, 0u);
  EXPECT_EQ(found[0].end - found[0].begin, kDigestBlock);
}

TEST(DiffCheckpoints, LayoutsDoNotMatter) {
  const test::TempFolder temp;
  test::Made sliced;
  sliced.slices = 3;
  Checkpoint a = test::made_checkpoint(temp / "a", test::small_model());
  Checkpoint b = test::made_checkpoint(temp / "b", test::small_model(), sliced);
  const CheckpointDiff diff = diff_checkpoints(a, b);
  EXPECT_TRUE(diff.same) << diff.text;
  EXPECT_EQ(diff.text, "42 tensors are equal to the bit\n");
}

// Writes the checkpoint of a model again with one value changed, or another shape, or less.
TEST(DiffCheckpoints, SaysWhatDiffersAndWhere) {
  const test::TempFolder temp;
  const ModelOptions model = test::small_model();
  Checkpoint a = test::made_checkpoint(temp / "a", model);
  ModelOptions tied = model;
  tied.tie_embeddings = true;
  tied.vocab_size = 12;
  test::Made other;
  other.iteration = 4;
  Checkpoint b = test::made_checkpoint(temp / "b", tied, other);
  const CheckpointDiff diff = diff_checkpoints(a, b);
  EXPECT_FALSE(diff.same);
  expect_has(diff.text, "iteration: 3 against 4\n");
  expect_has(diff.text, "state 'iteration': 3 against 4\n");
  expect_has(diff.text, "'embedding.word.weight': shape [11, 8] against [12, 8]\n");
  expect_has(diff.text, "'output.weight': only in '");
  EXPECT_FALSE(diff_checkpoints(b, a).same);
}

TEST(DiffCheckpoints, ComparesValuesAcrossTypes) {
  const test::TempFolder temp;
  const ModelOptions model = test::small_model();
  test::Made narrow;
  narrow.dtype = DType::bf16;
  Checkpoint a = test::made_checkpoint(temp / "a", model);
  Checkpoint b = test::made_checkpoint(temp / "b", model, narrow);
  const CheckpointDiff diff = diff_checkpoints(a, b);
  EXPECT_FALSE(diff.same);
  expect_has(diff.text, "'final_norm.weight': f32 against bf16, ");
  expect_has(diff.text, "21 tensors are equal to the bit\n");  // the optimizer's
}

TEST(DiffCheckpoints, FindsTheLargestDifference) {
  const test::TempFolder temp;
  const auto write = [&](const std::string& name, const std::vector<float>& values) {
    test::MadeFile file;
    file.add("x", {2, 3}, DType::f32, test::bytes_of(values));
    Manifest manifest;
    const fs::path staging_dir = create_staging_dir(temp / name, 0);
    file.write(staging_dir / "model.safetensors", manifest, 1);
    manifest.files.push_back(write_digested(staging_dir / kConfigFile, "a: b\n"));
    commit_staging_dir(staging_dir, temp / name, manifest);
    return Checkpoint(iteration_folder(temp / name, 0));
  };
  Checkpoint a = write("a", {1, 2, 3, 4, 5, 6});
  Checkpoint b = write("b", {1, 2.5, 3, 4, 5, 3});
  Checkpoint c = write("c", {1, 2, 3, NAN, 5, 3});
  expect_has(diff_checkpoints(a, b).text, "'x': 2 of 6 values differ, most by 3 at [1, 2]\n");
  expect_has(diff_checkpoints(a, c).text, "'x': 2 of 6 values differ, most by inf at [1, 0]\n");
  EXPECT_TRUE(diff_checkpoints(c, c).same);
}

}  // namespace
}  // namespace tessera
