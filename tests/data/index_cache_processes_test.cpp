// Many processes build one cache at once, and some are killed: those that live have the right
// indices, and what is left is fixed. TESSERA_FULL does it longer.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "tessera/data/datasets/gpt_index_cache.h"
#include "tessera/data/files/pending_file.h"
#include "tests/support/in_a_process.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

class IndexCacheProcesses : public testing::Test {
 protected:
  IndexCacheProcesses() {
    for (std::int32_t i = 0; i < 20'000; ++i) lengths_.push_back(i % 97);
    spec_ = {{0, 20'000}, 200'000, 8, 1234};  // two epochs, in arrays of up to 2 MB
    expected_ = build_gpt_indices(lengths_, spec_);
  }

  bool is_right() const {
    const GptIndices got = cached_gpt_indices(cache_, lengths_, spec_);
    return std::ranges::equal(got.document_index, expected_.document_index) &&
           std::ranges::equal(got.sample_index.bytes(), expected_.sample_index.bytes()) &&
           std::ranges::equal(got.shuffle_index.bytes(), expected_.shuffle_index.bytes());
  }

  // A process that ends with 0 when it has the right indices.
  pid_t start() const {
    return test::in_a_process([this] { return is_right(); });
  }

  // A process that builds them over and over, until it is killed or has wrong ones.
  pid_t start_endless() const {
    return test::in_a_process([this] {
      while (is_right())
        for (const fs::path& path : files("description.txt")) ::unlink(path.c_str());
      return false;
    });
  }

  std::vector<fs::path> files(const std::string& part) const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(cache_))
      if (entry.path().filename().string().find(part) != std::string::npos)
        paths.push_back(entry.path());
    std::ranges::sort(paths);
    return paths;
  }

  // As it is found when a run starts: nothing is there, or a file is missing, cut off or changed.
  void damage() {
    const std::vector<fs::path> there = files("");
    const unsigned kind = random_() % 4;
    if (kind == 0 || there.empty()) {
      for (const fs::path& path : there) fs::remove(path);
      return;
    }
    const fs::path& path = there[random_() % there.size()];
    const auto size = static_cast<unsigned>(fs::file_size(path));
    if (kind == 1) fs::remove(path);
    if (kind == 2) fs::resize_file(path, random_() % std::max(size, 1u));
    if (kind == 3 && size > 0) {
      const auto at = static_cast<std::streamoff>(random_() % size);
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const int byte = file.seekg(at).get();
      file.seekp(at).put(static_cast<char>(byte ^ 1));
    }
  }

  // Six processes, of which three are killed within `limit`.
  void run_and_kill(std::chrono::microseconds limit) {
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) children.push_back(i < 3 ? start_endless() : start());
    for (std::size_t i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(limit / 3 * (random_() % 1000) / 1000);
      ::kill(children[i], SIGKILL);
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      ::waitpid(children[i], &status, 0);
      EXPECT_TRUE(i < 3 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                        : WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "process " << i << " ended with " << status;
    }
  }

  test::TempFolder folder_;
  fs::path cache_ = folder_ / "cache";
  std::vector<std::int32_t> lengths_;
  GptIndexSpec spec_;
  GptIndices expected_;
  std::mt19937 random_{7};
};

void make_old(const fs::path& path, std::chrono::hours age) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

TEST_F(IndexCacheProcesses, KilledAtAnyTimeOthersAreRight) {
  fs::create_directories(cache_);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(is_right());
  const auto limit = std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::steady_clock::now() - begin) *
                     2;
  const int rounds = std::getenv("TESSERA_FULL") != nullptr ? 200 : 5;
  for (int round = 0; round < rounds; ++round) {
    damage();
    run_and_kill(limit);
    EXPECT_TRUE(is_right()) << round;
    EXPECT_EQ(files("").size() - files(".tmp-").size(), 4u) << round;
  }
  // What is left goes when the files are written next.
  for (const fs::path& left : files(".tmp-")) make_old(left, std::chrono::hours(1));
  for (const fs::path& file : files("description.txt")) fs::remove(file);
  EXPECT_TRUE(is_right());
  EXPECT_EQ(files("").size(), 4u);
}

class PendingFiles : public testing::Test {
 protected:
  // A temporary file that somebody else has left.
  fs::path left(const std::string& name, std::chrono::hours age) const {
    fs::path path = folder_ / name;
    std::ofstream(path) << "part";
    make_old(path, age);
    return path;
  }
  void write() const {
    PendingFile file(target_);
    file.write("whole", 5);
    file.publish();
    EXPECT_EQ(read_text_file(target_), "whole");
  }

  test::TempFolder folder_;
  fs::path target_ = folder_ / "a.npy";
};

TEST_F(PendingFiles, LeaveNothing) {
  write();
  { PendingFile(target_).write("part", 4); }
  EXPECT_EQ(read_text_file(target_), "whole");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(PendingFiles, RemoveWhatTheDeadLeft) {
  const fs::path old = left("a.npy.tmp-1", std::chrono::hours(1));
  const fs::path fresh = left("a.npy.tmp-2", std::chrono::hours(0));
  const fs::path others = left("ab.npy.tmp-3", std::chrono::hours(100));
  const fs::path kept = left("a.npy.old", std::chrono::hours(100));
  fs::create_symlink(kept, folder_ / "a.npy.tmp-4");
  write();
  EXPECT_FALSE(fs::exists(old));
  for (const fs::path& path : {fresh, others, kept}) EXPECT_TRUE(fs::exists(path)) << path;
}

TEST_F(PendingFiles, KeepWhatTheLivingWrite) {
  PendingFile slow(target_);
  slow.write("slow", 4);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    make_old(entry.path(), std::chrono::hours(100));
  write();
  slow.publish();
  EXPECT_EQ(read_text_file(target_), "slow");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace tessera
