// After two steps, a training step makes no allocation over 4 KiB on the rank's thread, its
// libraries' included. This program replaces malloc, so it is one of its own, and not built with
// sanitizers.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace {

struct LargeAllocations {
  bool counting = false;
  long count = 0;
  std::size_t largest = 0;
  void note(std::size_t bytes) {
    if (!counting || bytes <= 4096) return;
    ++count;
    largest = std::max(largest, bytes);
  }
};
thread_local LargeAllocations large;  // NOLINT(*-non-const-global-variables)

}  // namespace

extern "C" {
// NOLINTBEGIN(readability-identifier-naming)
void* __libc_malloc(std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
// NOLINTEND(readability-identifier-naming)

void* malloc(std::size_t bytes) {
  large.note(bytes);
  return __libc_malloc(bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  large.note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  large.note(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  large.note(bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}
void* calloc(std::size_t n, std::size_t each) {
  large.note(n * each);
  return __libc_calloc(n, each);
}
void* realloc(void* p, std::size_t bytes) {
  large.note(bytes);
  return __libc_realloc(p, bytes);
}
}

namespace tessera {
namespace {

TEST(Allocation, TheCounterSeesAnAllocation) {
  large = {true, 0, 0};
  const std::vector<char> memory(10000);
  large.counting = false;
  EXPECT_EQ(large.count, 1) << memory.size();
  large = {true, 0, 0};
  void* aligned = nullptr;
  ASSERT_EQ(posix_memalign(&aligned, 64, 10000), 0);
  large.counting = false;
  EXPECT_EQ(large.count, 1);
  std::free(aligned);
}

TEST(Allocation, ASteadyStepMakesNoLargeOne) {
  for (const std::string& family : test::tiny_families())
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      SessionOptions options = test::tiny_session(family);
      options.model.dtype = dtype;
      options.microbatches = 2;
      options.model.vocab_size = 1000;  // products that are worth two threads
      options.shape = {64, 4};
      options.model.max_position_embeddings = 64;
      Session session(options, {0, 1, 2, make_self_communicator()});
      const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
      Steps steps(session, LossAverage::per_microbatch);
      const auto step = [&] {
        steps.submit([&]() -> const HostBatch& { return batch; });
        EXPECT_EQ(steps.collect().size(), 1U);
      };
      step();
      step();
      large = {true, 0, 0};
      for (int i = 0; i < 3; ++i) step();
      large.counting = false;
      EXPECT_EQ(large.count, 0) << family << " " << to_string(dtype) << ": largest "
                                << large.largest << " bytes";
    }
}

}  // namespace
}  // namespace tessera
