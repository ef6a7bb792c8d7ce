#include "tessera/data/datasets/gpt_index_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

class GptIndexCache : public testing::Test {
 protected:
  GptIndices cached() const { return cached_gpt_indices(cache_, lengths_, spec_); }

  void expect_right(const GptIndices& got) const {
    const GptIndices fresh = build_gpt_indices(lengths_, spec_);
    EXPECT_TRUE(std::ranges::equal(got.document_index, fresh.document_index));
    EXPECT_FALSE(got.sample_index.is_wide() || got.shuffle_index.is_wide());
    EXPECT_TRUE(std::ranges::equal(got.sample_index.bytes(), fresh.sample_index.bytes()));
    EXPECT_TRUE(std::ranges::equal(got.shuffle_index.bytes(), fresh.shuffle_index.bytes()));
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(cache_)) paths.push_back(entry.path());
    std::ranges::sort(paths);
    return paths;
  }

  fs::path file(const std::string& ending) const {
    for (const fs::path& path : files())
      if (path.string().ends_with(ending)) return path;
    throw Error("no file ends with " + ending);
  }

  // A run that finds good files does not write them again.
  bool uses_files() const {
    const auto before = fs::last_write_time(file("description.txt"));
    cached();
    return fs::last_write_time(file("description.txt")) == before;
  }

  test::TempFolder folder_;
  fs::path cache_ = folder_ / "new" / "cache";
  std::vector<std::int32_t> lengths_{5, 3, 8, 2, 7};
  GptIndexSpec spec_{{2, 7}, 10, 4, 1234};
};

TEST_F(GptIndexCache, StoresOnceAndMapsAfterwards) {
  expect_right(cached());
  EXPECT_EQ(files().size(), 4u);
  expect_right(cached());
  EXPECT_TRUE(uses_files());
}

// The published arrays, byte for byte as numpy.save writes them.
TEST_F(GptIndexCache, FilesAreMegatronsNumpyArrays) {
  spec_.range = {0, 5};
  cached();
  const auto expect_file = [this](const char* name, const std::string& dict, const auto& values) {
    const std::string text = read_text_file(file(fmt::format("-{}.npy", name)));
    std::string header = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + dict;
    header.append(127 - header.size(), ' ').push_back('\n');
    const auto bytes = std::as_bytes(std::span(values));
    EXPECT_EQ(text, header + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()))
        << name;
  };
  expect_file("document_index", "{'descr': '<i4', 'fortran_order': False, 'shape': (10,), }",
              std::vector<std::int32_t>{2, 2, 4, 1, 0, 3, 4, 0, 1, 3});
  expect_file("sample_index", "{'descr': '<i4', 'fortran_order': False, 'shape': (13, 2), }",
              std::vector<std::int32_t>{0, 0, 0, 4, 1, 0, 1, 4, 2, 0, 2, 4, 3,
                                        1, 4, 2, 5, 1, 6, 3, 7, 0, 7, 4, 9, 0});
  expect_file("shuffle_index", "{'descr': '<u4', 'fortran_order': False, 'shape': (12,), }",
              std::vector<std::uint32_t>{3, 11, 2, 1, 7, 5, 4, 0, 8, 6, 10, 9});
}

TEST_F(GptIndexCache, EveryInputHasItsOwnFiles) {
  cached();
  const auto differs = [this](const std::function<void()>& change) {
    const std::size_t before = files().size();
    change();
    expect_right(cached());
    EXPECT_EQ(files().size(), before + 4);
  };
  differs([this] { spec_.seed = 1; });
  differs([this] { spec_.num_samples = 11; });
  differs([this] { spec_.seq_length = 5; });
  differs([this] { spec_.range = {3, 8}; });
  differs([this] { lengths_[0] = 6; });
}

TEST_F(GptIndexCache, DamageIsFoundAndRepaired) {
  cached();
  for (const fs::path& path : files()) {
    const std::string whole = read_text_file(path);
    std::vector<std::string> damaged{"", whole.substr(0, whole.size() - 1), whole, whole};
    damaged[2][12] ^= 1;
    damaged[3].back() ^= 1;
    for (const std::string& bytes : damaged) {
      std::ofstream(path, std::ios::binary) << bytes;
      expect_right(cached());
      EXPECT_EQ(read_text_file(path), whole);
    }
    fs::remove(path);
    expect_right(cached());
    EXPECT_EQ(read_text_file(path), whole);
  }
}

TEST_F(GptIndexCache, AFolderThatCannotBeMadeIsOnlyAWarning) {
  write_file_atomically(folder_ / "new", "a file in the way");
  expect_right(cached());
}

TEST_F(GptIndexCache, ManyMayBuildAtOnce) {
  std::vector<std::jthread> threads;
  std::atomic<int> samples = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { samples += static_cast<int>(cached().shuffle_index.size()); });
  threads.clear();
  EXPECT_EQ(samples, 4 * 12);
  EXPECT_EQ(files().size(), 4u);
  EXPECT_TRUE(uses_files());
}

}  // namespace
}  // namespace tessera
