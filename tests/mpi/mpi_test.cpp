// Processes as ranks: all that every communicator must do, and the bits of ranks as threads.
#include "tessera/comm/mpi.h"

#include <thread>

#include "tessera/comm/local.h"
#include "tests/comm/conformance.h"
#include "tests/mpi/world.h"

namespace tessera::test {
namespace {

constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                            DType::i64, DType::i32, DType::i16,  DType::u8};

TEST(Mpi, Conforms) {
  const auto all = world()->communicator();
  EXPECT_EQ(all->rank(), world()->rank());
  EXPECT_EQ(all->size(), world()->size());
  EXPECT_EQ(world()->local_rank(), world()->rank()) << "tests run on one host";
  EXPECT_EQ(world()->local_size(), world()->size());
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(to_string(dtype));
    Conformance(*all, {}, dtype).expect_everything();
  }
}

TEST(Mpi, PartsConform) {
  const auto all = world()->communicator();
  const auto backwards = all->split(0, -all->rank());
  EXPECT_EQ(backwards->rank(), all->size() - 1 - all->rank());
  Conformance(*backwards, {}, DType::f32).expect_everything();
  // Two groups at once, and the group of all between them.
  const auto half = all->split(all->rank() % 2, 0);
  Conformance(*half, {}, DType::i32).expect_everything();
  Conformance(*all, {}, DType::u8).expect_everything();
  const auto alone = half->split(half->rank(), 0);
  EXPECT_EQ(alone->size(), 1);
  Conformance(*alone, {}, DType::f64).expect_everything();
}

// What rank r has.
Values data(int r, std::int64_t count) {
  return random_values(count, 17 + static_cast<std::uint64_t>(r), 100.0);
}

using Bytes = std::vector<std::uint8_t>;

// The bytes that a rank has after a reduction, all_reduce's and then reduce_scatter's.
Bytes reduce(Communicator& group, DType dtype, std::int64_t count, ReduceOp op) {
  Lab lab;
  const Tensor x = lab.tensor(dtype, {count}, data(group.rank(), count));
  const Tensor whole =
      lab.tensor(dtype, {group.size(), count}, data(100 + group.rank(), group.size() * count));
  const Tensor part = lab.full(dtype, {count}, 0);
  group.all_reduce(x, op, lab.stream)->wait(lab.stream);
  group.reduce_scatter(part, whole.view(), op, lab.stream)->wait(lab.stream);
  Bytes bytes = lab.bytes(x), more = lab.bytes(part);
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

// The same where ranks are threads of this process.
Bytes reduce_locally(int rank, int size, DType dtype, std::int64_t count, ReduceOp op) {
  LocalWorld local(size);
  std::vector<Bytes> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      results[static_cast<std::size_t>(r)] = reduce(*local.communicator(r), dtype, count, op);
    });
  for (std::thread& thread : threads) thread.join();
  return results[static_cast<std::size_t>(rank)];
}

TEST(Mpi, ReducesToTheBitsOfThreads) {
  const auto all = world()->communicator();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::avg})
      for (const std::int64_t count : {1, 1003, 9001}) {  // with the call, and in shares
        SCOPED_TRACE(fmt::format("{} op {} count {}", to_string(dtype), int(op), count));
        EXPECT_EQ(reduce(*all, dtype, count, op),
                  reduce_locally(all->rank(), all->size(), dtype, count, op));
      }
}

// In float the order shows: (1e8 + 1) - 1e8 is 0, 1e8 - 1e8 + 1 is 1.
TEST(Mpi, SumsInRankOrder) {
  const auto all = world()->communicator();
  const float values[] = {1e8f, 1.0f, -1e8f};
  float expected = 0;
  for (int r = 0; r < all->size(); ++r) expected += values[r % 3];
  Stream stream{Device{}};
  std::vector<float> x(1000, values[all->rank() % 3]);
  all->all_reduce(View(x.data(), DType::f32, {1000}), ReduceOp::sum, stream)->wait(stream);
  for (const float each : x) EXPECT_EQ(each, expected);
}

// More than one piece of a reduction, and of a length that nothing divides.
TEST(Mpi, LargeReductions) {
  const auto all = world()->communicator();
  const int n = all->size();
  const std::int64_t count = (std::int64_t{5} << 20) + 7;
  const auto value = [](int r, std::int64_t i) { return static_cast<float>((r + i) % 101); };
  std::vector<float> x, part(static_cast<std::size_t>(count / n));
  for (std::int64_t i = 0; i < count; ++i) x.push_back(value(all->rank(), i));
  const auto sum = [&](std::int64_t i) {
    float total = 0;
    for (int r = 0; r < n; ++r) total += value(r, i);
    return total;
  };
  Stream stream{Device{}};
  const std::int64_t each = count / n;
  all->reduce_scatter(View(part.data(), DType::f32, {each}),
                      ConstView(x.data(), DType::f32, {n, each}), ReduceOp::sum, stream)
      ->wait(stream);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < each; ++i)
    wrong += part[static_cast<std::size_t>(i)] != sum(all->rank() * each + i) ? 1 : 0;
  EXPECT_EQ(wrong, 0) << "reduce_scatter";
  all->all_reduce(View(x.data(), DType::f32, {count}), ReduceOp::sum, stream)->wait(stream);
  for (std::int64_t i = 0; i < count; ++i)
    wrong += x[static_cast<std::size_t>(i)] != sum(i) ? 1 : 0;
  EXPECT_EQ(wrong, 0) << "all_reduce";
}

// Too large to travel with the call.
TEST(Mpi, LargeMoves) {
  const auto all = world()->communicator();
  const int n = all->size(), me = all->rank();
  const std::int64_t count = 5003;
  Lab lab;
  const auto rank_values = [&](int r) {
    return Values(static_cast<std::size_t>(count), static_cast<double>(r));
  };
  const Tensor x = lab.tensor(DType::f64, {count}, rank_values(me));
  all->broadcast(x, n - 1, lab.stream)->wait(lab.stream);
  EXPECT_EQ(lab.read(x), rank_values(n - 1));

  const Tensor mine = lab.tensor(DType::f64, {count}, rank_values(me));
  const Tensor parts = lab.full(DType::f64, {n, count}, 0),
               dealt = lab.full(DType::f64, {n, count}, 0);
  all->all_gather(parts, mine.view(), lab.stream)->wait(lab.stream);
  Values expected, mine_of_all;
  for (int r = 0; r < n; ++r) {
    const Values theirs = rank_values(r), own = rank_values(me);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
    mine_of_all.insert(mine_of_all.end(), own.begin(), own.end());
  }
  EXPECT_EQ(lab.read(parts), expected);
  all->all_to_all(dealt, parts.view(), lab.stream)->wait(lab.stream);
  EXPECT_EQ(lab.read(dealt), mine_of_all);
}

TEST(Mpi, WorksMayBeWaitedForLateAndTwice) {
  const auto all = world()->communicator();
  Lab lab;
  std::vector<Tensor> tensors;
  std::vector<WorkHandle> works;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(lab.full(DType::i64, {100}, i + all->rank()));
    works.push_back(all->all_reduce(tensors.back(), ReduceOp::max, lab.stream));
  }
  for (int i = 19; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    works[at]->wait(lab.stream);
    works[at]->wait(lab.stream);
    EXPECT_EQ(lab.read(tensors[at]), Values(100, i + all->size() - 1));
  }
}

// All wait for their neighbours' messages before they send: sends overtake calls.
TEST(Mpi, SendsDoNotWaitForEarlierReceives) {
  const auto all = world()->communicator();
  const int n = all->size(), next = (all->rank() + 1) % n, before = (all->rank() + n - 1) % n;
  Lab lab;
  for (const std::int64_t count : {3, 300000}) {
    const Tensor mine = lab.full(DType::f32, {count}, all->rank());
    const Tensor got = lab.full(DType::f32, {count}, 99);
    const WorkHandle coming = all->recv(got, before, lab.stream);
    all->send(mine.view(), next, lab.stream)->wait(lab.stream);
    lab.write(mine, Values(static_cast<std::size_t>(count), 77));  // it was copied
    coming->wait(lab.stream);
    EXPECT_EQ(lab.read(got), Values(static_cast<std::size_t>(count), before));
  }
}

TEST(Mpi, SendsToItself) {
  const auto all = world()->communicator();
  Lab lab;
  const Tensor mine = lab.full(DType::bf16, {5}, 3), got = lab.full(DType::bf16, {5}, 0);
  all->send(mine.view(), all->rank(), lab.stream)->wait(lab.stream);
  all->recv(got, all->rank(), lab.stream)->wait(lab.stream);
  EXPECT_EQ(lab.read(got), Values(5, 3));
}

}  // namespace
}  // namespace tessera::test
