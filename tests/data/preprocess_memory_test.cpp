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
    const pid_t child = ::fork();
    if (child == 0) {
      preprocess(options_);
      ::_exit(0);
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

}  // namespace
}  // namespace tessera
