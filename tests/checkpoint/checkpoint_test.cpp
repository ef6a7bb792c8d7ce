// Checkpoints as files: slices come together, damage of any kind is found before it is used,
// staging directories and old checkpoints come and go.
#include "tessera/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "tests/checkpoint/written_checkpoint.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::expect_input_error;
using test::TempFolder;
using test::write_checkpoint;

std::vector<float> read_box(Checkpoint& checkpoint, const Shape& offset, const Shape& extent) {
  std::vector<float> values(static_cast<std::size_t>(extent.numel()));
  checkpoint.read_box("table", offset, extent, View(values.data(), DType::f32, extent));
  return values;
}

TEST(Checkpoint, ReadsAnyBoxOutOfSlices) {
  const TempFolder temp;
  Checkpoint checkpoint(write_checkpoint(temp.path(), 7));
  EXPECT_EQ(checkpoint.iteration(), 7);
  EXPECT_EQ(checkpoint.config(), "seed: 1\n");
  for (std::int64_t row = 0; row < test::kRows; ++row)
    for (std::int64_t column = 0; column < test::kColumns; ++column)
      for (std::int64_t rows = 0; rows <= test::kRows - row; ++rows)
        for (std::int64_t columns = 0; columns <= test::kColumns - column; ++columns)
          ASSERT_EQ(read_box(checkpoint, {row, column}, {rows, columns}),
                    test::box_of(test::kColumns, {row, column}, {rows, columns}));
}

TEST(Checkpoint, ConvertsAndReadsIntoStridedMemory) {
  const TempFolder temp;
  Checkpoint checkpoint(write_checkpoint(temp.path(), 1));
  std::vector<double> wide(16, -1);
  checkpoint.read_box("table", {3, 2}, {2, 4}, View(wide.data(), DType::f64, {2, 4}, {8, 1}));
  EXPECT_EQ(std::vector<double>(wide.begin(), wide.begin() + 4),
            (std::vector<double>{32, 33, 34, 35}));
  EXPECT_EQ(wide[4], -1);
  EXPECT_EQ(wide[8], 42);
  std::vector<std::int32_t> whole(60);
  expect_input_error(
      [&] {
        checkpoint.read("table", View(whole.data(), DType::i32, {6, 10}));
      },
      {"table", "cannot be read as i32"});
  expect_input_error([&] { checkpoint.tensor("chair"); }, {"chair"});
}

// Flips bits and cuts files anywhere: what is read is what was saved, or it is refused.
TEST(Checkpoint, DamageIsFoundBeforeItIsUsed) {
  const TempFolder temp;
  constexpr std::int64_t kVector = (5 << 20) / 2;  // 10 MiB: three blocks
  const fs::path good = write_checkpoint(temp / "good", 3, kVector);
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(good)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  const int count = std::getenv("TESSERA_FULL") != nullptr ? 10'000 : 200;
  std::mt19937_64 random(11);
  int small = 0;
  for (int i = 0; i < count; ++i) {
    const fs::path name = names[random() % names.size()];
    const fs::path file = good / name;
    const std::uintmax_t size = fs::file_size(file);
    const std::uintmax_t at = random() % size;
    const bool cut = random() % 8 == 0 && size < 100'000;  // long ones take long to bring back
    const std::string before = size < 100'000 ? read_text_file(file) : "";
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(stream.get());
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(byte ^ (1 << random() % 8)));
    stream.close();
    if (cut) fs::resize_file(file, at);
    SCOPED_TRACE(fmt::format("{} {} at {}", cut ? "cut" : "flip", name.string(), at));
    try {
      Checkpoint checkpoint(good);
      std::vector<float> vector(kVector);
      checkpoint.read("vector", View(vector.data(), DType::f32, {kVector}));
      read_box(checkpoint, {0, 0}, {6, 10});
      checkpoint.verify();
      ADD_FAILURE() << "nobody saw it";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(name.string()), std::string::npos) << error.what();
    }
    if (cut) {
      ++small;
      std::ofstream(file, std::ios::binary) << before;
    } else {
      std::fstream back(file, std::ios::in | std::ios::out | std::ios::binary);
      back.seekp(static_cast<std::streamoff>(at));
      back.put(byte);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(small, 0);
  Checkpoint(good).verify();
}

// The message says which tensor, in which file, near which byte.
TEST(Checkpoint, DamageHasAPlace) {
  const TempFolder temp;
  constexpr std::int64_t kVector = 2 << 20;
  const fs::path path = write_checkpoint(temp.path(), 3, kVector);
  const fs::path file = path / "model-00001.safetensors";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(5 << 20);
  stream.put('x');
  stream.close();
  Checkpoint checkpoint(path);
  EXPECT_EQ(read_box(checkpoint, {0, 3}, {1, 1}).front(), 3) << "another block: still good";
  std::vector<float> vector(kVector);
  expect_input_error([&] { checkpoint.read("vector", View(vector.data(), DType::f32, {kVector})); },
                     {"model-00001.safetensors", "4194304", "8388608", "vector", "older one"});
}

TEST(Checkpoint, FilesThatAreNotFilesAreRefused) {
  const TempFolder temp;
  const fs::path path = write_checkpoint(temp.path(), 3);
  const fs::path file = path / "model-00000.safetensors";
  fs::rename(file, temp / "elsewhere");
  const auto refused = [&](const char* part) {
    Checkpoint checkpoint(path);
    expect_input_error(
        [&] {
          read_box(checkpoint, {0, 0}, {6, 10});
        },
        {"model-00000.safetensors", part});
    fs::remove(file);
  };
  refused("No such file");
  fs::create_symlink(temp / "elsewhere", file);
  refused("cannot read");
  fs::create_directory(file);
  refused("cannot read");
  fs::copy_file(path / "model-00001.safetensors", file);
  refused("bytes");
}

TEST(Checkpoint, TheNewestThatVerifiesIsTaken) {
  const TempFolder temp;
  EXPECT_FALSE(Checkpoint::find(temp / "absent").has_value());
  for (const std::int64_t iteration : {10, 20, 30}) write_checkpoint(temp.path(), iteration);
  write_file_atomically(temp / "latest_checkpointed_iteration.txt", "10\n");  // a hint, and wrong
  EXPECT_EQ(Checkpoint::find(temp.path())->iteration(), 30);
  EXPECT_EQ(Checkpoint::find(temp.path(), 20)->iteration(), 20);
  expect_input_error([&] { Checkpoint::find(temp.path(), 25); }, {"25", "30, 20, 10"});
  const fs::path manifest = temp / "iter_0000030/manifest.json";
  std::string text = read_text_file(manifest);
  text[text.size() / 2] ^= 4;
  std::ofstream(manifest, std::ios::binary) << text;
  fs::create_directories(temp / "iter_0000040");
  EXPECT_EQ(Checkpoint::find(temp.path())->iteration(), 20);
  expect_input_error([&] { Checkpoint::find(temp.path(), 30); }, {"manifest.json", "damaged"});
  expect_input_error([&] { Checkpoint::find(temp / "iter_0000010"); }, {"one checkpoint"});
  fs::rename(temp / "iter_0000020", temp / "iter_0000021");
  expect_input_error([&] { Checkpoint::find(temp.path(), 21); }, {"iteration 20"});
}

TEST(CheckpointFolder, StagingDirectoriesAreNoCheckpoints) {
  const TempFolder temp;
  write_checkpoint(temp.path(), 5);
  create_staging_dir(temp.path(), 6);
  EXPECT_EQ(iterations_in(temp.path()), (std::vector<std::int64_t>{5}));
  remove_all_staging_dirs(temp.path());
  int left = 0;
  for (const auto& entry : fs::directory_iterator(temp.path()))
    left += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(left, 1);
}

TEST(CheckpointFolder, ACommitReplacesTheSameIteration) {
  const TempFolder temp;
  write_checkpoint(temp.path(), 5, 3);
  write_checkpoint(temp.path(), 5, 4);
  EXPECT_EQ(Checkpoint::find(temp.path())->tensor("vector").shape, Shape({4}));
}

// Killed where a checkpoint had stepped aside for a new one of the same iteration.
TEST(CheckpointFolder, WhatSteppedAsideComesBack) {
  const TempFolder temp;
  write_checkpoint(temp.path(), 5);
  fs::rename(temp / "iter_0000005", temp / "iter_0000005.old-12ab");
  write_checkpoint(temp.path(), 6);
  fs::create_directories(temp / "iter_0000006.old-12ab");
  fs::create_directories(temp / "iter_0000004.gone-12ab");
  remove_all_staging_dirs(temp.path());
  EXPECT_EQ(iterations_in(temp.path()), (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(Checkpoint::find(temp.path(), 5)->iteration(), 5);
  EXPECT_FALSE(fs::exists(temp / "iter_0000006.old-12ab"));
  EXPECT_FALSE(fs::exists(temp / "iter_0000004.gone-12ab"));
}

TEST(CheckpointFolder, KeepsWhatItIsToldTo) {
  const std::vector<std::int64_t> all{10, 20, 30, 40, 50};
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(surplus(all, {}), List());
  EXPECT_EQ(surplus(all, {1, 0}), (List{10, 20, 30, 40}));
  EXPECT_EQ(surplus(all, {2, 20}), (List{10, 30}));
  EXPECT_EQ(surplus({10}, {1, 0}), List());
  const TempFolder temp;
  for (const std::int64_t iteration : all) write_checkpoint(temp.path(), iteration);
  remove_surplus(temp.path(), {2, 0}, 40);  // 50 is another run's future: left alone
  EXPECT_EQ(iterations_in(temp.path()), (List{30, 40, 50}));
}

}  // namespace
}  // namespace tessera
