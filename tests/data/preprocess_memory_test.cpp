// Memory does not grow with the input.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/data/preprocess_case.h"

namespace tessera {
namespace {

class PreprocessMemory : public test::PreprocessCase {
 protected:
  // The most memory, in MiB, of a process that preprocesses this many bytes of short documents.
  double peak(std::int64_t bytes, int round) {
    const std::string piece = test::made_up_lines(1000, 1, 200);
    const std::string name = path("in.jsonl");
    {
      std::ofstream file(name, std::ios::binary);
      for (std::int64_t written = 0; written < bytes;
           written += static_cast<std::int64_t>(piece.size()))
        file << piece;
    }
    options_.inputs = {name};
    options_.output_prefix = path(fmt::format("out{}", round));
    return peak_of([this] { preprocess(options_); });
  }

  // The most memory, in MiB, of a process that does this.
  template <class Work>
  static double peak_of(const Work& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      work();
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    rusage usage{};
    ::wait4(child, &status, 0, &usage);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return static_cast<double>(usage.ru_maxrss) / 1024;
  }
};

TEST_F(PreprocessMemory, IsFlat) {
  if (!test::full()) GTEST_SKIP() << "200 MB of text: with TESSERA_FULL=1";
  const double small = peak(20'000'000, 1), large = peak(200'000'000, 2);
  RecordProperty("small_mib", std::to_string(small));
  RecordProperty("large_mib", std::to_string(large));
  fmt::print("peak memory: {:.1f} MiB for 20 MB, {:.1f} MiB for 200 MB\n", small, large);
  EXPECT_LT(large, small + 4);
}

// A line beyond --max-line-size is read to its end, but not held.
TEST_F(PreprocessMemory, ALineOfAGigabyteIsNotHeld) {
  if (!test::full()) GTEST_SKIP() << "with TESSERA_FULL=1";
  input("long.jsonl", "{\"text\": \"a\"}\n");
  const std::string name = path("long.jsonl");
  const std::uintmax_t before = fs::file_size(name);
  fs::resize_file(name, before + 1'000'000'000);  // sparse
  std::ofstream(name, std::ios::app) << "\n{\"text\": \"b\"}\n";
  const double refused = peak_of([this] {
    test::expect_input_error([this] { preprocess(options_); },
                             {"long.jsonl' line 2", "more than 67108864 bytes", "--max-line-size"});
  });
  options_.on_error = OnError::skip;
  const double skipped = peak_of([this] {
    const PreprocessStats stats = preprocess(options_);
    EXPECT_EQ(stats.skipped, 1);
    EXPECT_EQ(stats.documents, 2);
  });
  fmt::print("peak memory: {:.1f} MiB when it is refused, {:.1f} MiB when it is skipped\n", refused,
             skipped);
  EXPECT_LT(std::max(refused, skipped), 300);
}

}  // namespace
}  // namespace tessera
