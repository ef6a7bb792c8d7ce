// One rank of an NCCL world; tools/nccl_test.sh starts them.
//
// usage: test_nccl --rank R --size N --id-file FILE [--stall HOW] [--gtest_...]
//
// Rank 0 writes the world's id to FILE, the others wait for it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/comm/nccl.h"
#include "tests/nccl/checks.h"
#include "tests/nccl/training.h"

namespace tessera::test {
namespace {

using Arguments = std::map<std::string, std::string>;

Arguments read_arguments(int argc, char** argv) {
  Arguments found;
  for (int i = 1; i + 1 < argc; i += 2) found[argv[i]] = argv[i + 1];
  for (const char* name : {"--rank", "--size", "--id-file"})
    check_input(found.count(name) == 1, "test_nccl needs {}", name);
  return found;
}

std::vector<std::byte> share_id(int rank, const std::string& file) {
  if (rank == 0) {
    std::vector<std::byte> id = make_nccl_id();
    write_file_atomically(file, {reinterpret_cast<const char*>(id.data()), id.size()});
    return id;
  }
  for (int tries = 0; !fs::exists(file); ++tries) {
    check(tries < 600, "rank 0 wrote no id to '{}' within a minute", file);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::string text = read_text_file(file);
  std::vector<std::byte> id(text.size());
  std::memcpy(id.data(), text.data(), text.size());
  return id;
}

int run(int argc, char** argv) {
  const Arguments arguments = read_arguments(argc, argv);
  const int rank = std::stoi(arguments.at("--rank"));
  const int size = std::stoi(arguments.at("--size"));
  if (cuda_device_count() == 0) {
    std::printf("[  SKIPPED ] %s\n", why_no_cuda().c_str());
    return std::getenv("TESSERA_NEED_GPU") == nullptr ? 0 : 1;
  }
  const Device device{DeviceKind::cuda, rank % cuda_device_count()};
  const auto stall = arguments.find("--stall");
  const auto timeout = std::chrono::seconds(stall == arguments.end() ? 120 : 10);
  // Ranks that compare their calls wait in them; what stalls otherwise is to be seen here.
  if (stall != arguments.end()) ::setenv("TESSERA_COMPARED_CALLS", "0", 1);
  const auto world =
      make_nccl_world(device, rank, size, share_id(rank, arguments.at("--id-file")), timeout);
  if (stall != arguments.end()) return run_stalled(*world, device, stall->second);
  register_nccl_tests(*world, device);
  register_nccl_trainings(world, device);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace tessera::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return tessera::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
}
