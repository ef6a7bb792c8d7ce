// Saving beside training: what is saved is the state of the request, memory stays within its limit,
// and a save that fails is logged and leaves what was there.
#include "tessera/checkpoint/saving/saver.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/saved_tensors.h"
#include "tests/train/session_run.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using Messages = std::vector<std::string>;

SaveContents contents_of(std::int64_t iteration) {
  return {iteration, fmt::format("{{\"iteration\": {}}}", iteration), {{kConfigFile, "seed: 1\n"}}};
}

class SaverTest : public testing::TestWithParam<Device> {
 protected:
  SaverTest()
      : session_(test::wide_session("llama", GetParam(), DType::bf16),
                 {0, 1, 2, make_self_communicator()}) {}

  Saver saver(const SaveOptions& options) {
    return {session_, options, [this](const std::string& text) { messages_.push_back(text); }};
  }

  test::TempFolder temp_;
  Session session_;
  Messages messages_;
};

TEST_P(SaverTest, ABackgroundSaveIsOfTheMomentOfItsRequest) {
  Saver at_once = saver({temp_ / "now"});
  at_once.request(contents_of(1));
  EXPECT_FALSE(at_once.pending());
  EXPECT_EQ(at_once.committed(), 1);
  Saver background = saver({temp_ / "later", true, true});
  background.request(contents_of(1));
  EXPECT_TRUE(background.pending());
  // The weights go on changing while they are written.
  session_.context().kernels.fill(session_.context().stream,
                                  session_.parameters().values().front().memory, 7);
  background.finish();
  EXPECT_TRUE(test::saved_tensors(temp_ / "later", 1) == test::saved_tensors(temp_ / "now", 1));
}

TEST_P(SaverTest, StagingStaysWithinItsLimit) {
  const Staging all(session_, true, {}, true);
  std::int64_t largest = 0;
  for (const StagedSlice& slice : all.slices())
    largest =
        std::max(largest, static_cast<std::int64_t>(
                              slice.kept.in(slice.block).numel() *
                              static_cast<std::int64_t>(element_size(slice.block.memory.dtype()))));
  saver({temp_ / "whole"}).request(contents_of(1));
  for (const std::int64_t limit : {largest + 64, all.capacity() / 2, all.capacity()}) {
    const Staging staging(session_, true, {limit}, true);
    EXPECT_LE(staging.capacity(), limit);
    const fs::path folder = temp_ / std::to_string(limit);
    Saver waves = saver({folder, true, true, limit});
    waves.request(contents_of(1));
    waves.finish();
    EXPECT_TRUE(test::saved_tensors(folder, 1) == test::saved_tensors(temp_ / "whole", 1)) << limit;
  }
  test::expect_input_error([&] { Staging(session_, true, {largest / 2}, true); },
                           {"--async-save-staging-mib", "at least"});
}

TEST_P(SaverTest, AFailureLeavesWhatWasThere) {
  for (const bool background : {false, true}) {
    const fs::path folder = temp_ / (background ? "b" : "a");
    Saver each = saver({folder, true, background});
    each.request(contents_of(1));
    each.finish();
    fs::rename(folder, temp_ / "aside");
    write_file_atomically(folder, "not a folder");
    messages_.clear();
    each.request(contents_of(2));
    each.finish();
    ASSERT_EQ(messages_.size(), 1u);
    EXPECT_NE(messages_.back().find("was not saved"), std::string::npos) << messages_.back();
    EXPECT_NE(messages_.back().find("iteration 1 stays"), std::string::npos) << messages_.back();
    EXPECT_EQ(each.committed(), 1);
    fs::remove(folder);
    fs::rename(temp_ / "aside", folder);
    each.request(contents_of(3));
    each.finish();
    EXPECT_EQ(each.committed(), 3);
    EXPECT_EQ(Checkpoint::find(folder)->iteration(), 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SaverTest, testing::ValuesIn(test::devices()),
                         [](const auto& each) { return test::device_name(each.param); });

// Data-parallel ranks share the writing: no byte is written twice, and none of them writes all.
TEST(Saver, RanksShareTheWriting) {
  const test::TempFolder temp;
  Options options = test::run_options(temp / "run");
  options.train.train_iters = options.train.save_interval = 1;
  options.parallel.nproc = 2;
  resolve(options);
  test::run(options);
  const Checkpoint checkpoint(iteration_folder(temp / "run", 1));
  std::map<std::string, std::uint64_t> bytes;
  for (const FileRecord& file : checkpoint.manifest().files) bytes[file.name] = file.bytes;
  for (const char* kind : {"model", "optimizer"}) {
    const double first = static_cast<double>(bytes.at(fmt::format("{}-00000.safetensors", kind)));
    const double second = static_cast<double>(bytes.at(fmt::format("{}-00001.safetensors", kind)));
    EXPECT_GT(first, 0.2 * second);
    EXPECT_GT(second, 0.2 * first);
  }
}

}  // namespace
}  // namespace tessera
