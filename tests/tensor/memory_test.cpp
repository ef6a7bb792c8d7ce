// Owned memory and its counters, and the arena layout that plans a block with the code that uses
// it.
#include "tessera/tensor/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "tessera/tensor/arena_layout.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

bool aligned(const View& x) { return reinterpret_cast<std::uintptr_t>(x.raw()) % 64 == 0; }

TEST(Memory, CountsBytesByUseUntilTheTensorGoes) {
  Memory memory(Device{});
  {
    const Tensor weights = memory.allocate(MemoryUse::parameters, DType::bf16, {3, 5});
    const Tensor moments = memory.allocate(MemoryUse::optimizer, DType::f32, {4});
    EXPECT_EQ(memory.counters().bytes[static_cast<int>(MemoryUse::parameters)], 30);
    EXPECT_EQ(memory.counters().bytes[static_cast<int>(MemoryUse::optimizer)], 16);
    EXPECT_EQ(memory.counters().total(), 46);
    EXPECT_EQ(memory.counters().allocations, 2);
  }
  EXPECT_EQ(memory.counters().total(), 0);
  EXPECT_EQ(memory.counters().allocations, 2) << "counts since the start";
}

TEST(Memory, MovingATensorKeepsItsMemory) {
  Memory memory(Device{});
  Tensor x = memory.allocate(MemoryUse::data, DType::i32, {2});
  x.data<std::int32_t>()[1] = 7;
  const Tensor y = std::move(x);
  EXPECT_EQ(y.data<std::int32_t>()[1], 7);
  EXPECT_EQ(memory.counters().total(), 8);
}

TEST(Memory, ATensorMayOutliveItsMemory) {
  std::optional<Memory> memory(Device{});
  const Tensor x = memory->allocate(MemoryUse::data, DType::i32, {2});
  memory.reset();
  x.data<std::int32_t>()[0] = 1;
  EXPECT_EQ(x.data<std::int32_t>()[0], 1);
}

TEST(Memory, TensorsAreAlignedAndMayBeEmpty) {
  Memory memory(Device{});
  for (const std::int64_t n : {0, 1, 63, 64, 65}) {
    const Tensor x = memory.allocate(MemoryUse::workspace, DType::u8, {n});
    EXPECT_TRUE(x) << "no elements is not the same as no tensor";
    EXPECT_TRUE(aligned(x));
  }
  EXPECT_FALSE(Tensor());
}

TEST(Memory, RefusesSizesThatCannotBe) {
  Memory memory(Device{});
  const auto allocate = [&](const Shape& shape) {
    memory.allocate(MemoryUse::data, DType::f64, shape);
  };
  test::expect_error([&] { allocate({std::int64_t{1} << 60, 2}); }, {"[1152921504606846976, 2]"});
  test::expect_error([&] { allocate({std::int64_t{1} << 62, 4}); }, {"[4611686018427387904, 4]"});
  EXPECT_EQ(memory.counters().total(), 0);
}

TEST(Memory, EveryUseHasAName) {
  EXPECT_EQ(to_string(MemoryUse::parameters), "parameters");
  EXPECT_EQ(to_string(MemoryUse::data), "data");
}

struct Layout {
  View a, b, c;
};

Layout lay_out(ArenaLayout& arena) {
  return {arena.take(DType::bf16, {3, 5}), arena.take(DType::f32, {0}),
          arena.take(DType::f64, {7})};
}

TEST(ArenaLayout, TakesExactlyWhatItMeasured) {
  ArenaLayout measure;
  const Layout nothing = lay_out(measure);
  EXPECT_TRUE(measure.measuring());
  EXPECT_FALSE(nothing.a);

  Memory memory(Device{});
  const Tensor block = memory.allocate(MemoryUse::activations, DType::u8,
                                       {static_cast<std::int64_t>(measure.bytes())});
  ArenaLayout arena(block);
  const Layout layout = lay_out(arena);
  EXPECT_FALSE(arena.measuring());
  EXPECT_EQ(arena.bytes(), measure.bytes());
  EXPECT_EQ(layout.a.to_string(), "bf16 [3, 5]");
  EXPECT_EQ(layout.c.to_string(), "f64 [7]");
  EXPECT_TRUE(aligned(layout.a) && aligned(layout.c));
  EXPECT_GE(static_cast<std::byte*>(layout.c.raw()),
            static_cast<std::byte*>(layout.a.raw()) + layout.a.bytes());
}

TEST(ArenaLayout, RefusesABlockThatIsTooSmall) {
  ArenaLayout measure;
  lay_out(measure);
  Memory memory(Device{});
  const Tensor block = memory.allocate(MemoryUse::activations, DType::u8,
                                       {static_cast<std::int64_t>(measure.bytes()) - 1});
  ArenaLayout arena(block);
  test::expect_error([&] { lay_out(arena); }, {"too small", "127", "128"});
}

}  // namespace
}  // namespace tessera
