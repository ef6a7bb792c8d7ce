#include "tests/nccl/checks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>

#include "tests/comm/conformance.h"
#include "tests/support/expect_error.h"

namespace tessera::test {
namespace {

constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                            DType::i64, DType::i32, DType::i16,  DType::u8};
constexpr Leeway kLeeway{.no_sums_of_i16 = true, .sends_need_groups = true};

using Body = std::function<void(Communicator&, Device)>;

class NcclTest : public ::testing::Test {
 public:
  NcclTest(Communicator& world, Device device, Body body)
      : world_(world), device_(device), body_(std::move(body)) {}
  void TestBody() override { body_(world_, device_); }

 private:
  Communicator& world_;
  Device device_;
  Body body_;
};

Values values_of(const Communicator& world, std::int64_t count) {
  return random_values(count, 11 + static_cast<std::uint64_t>(world.rank()));
}

Values sums_of(const Communicator& world, std::int64_t count, int step = 1) {
  Values sums(static_cast<std::size_t>(count), 0);
  for (int r = world.rank() % step; r < world.size(); r += step) {
    const Values more = random_values(count, 11 + static_cast<std::uint64_t>(r));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
  }
  return sums;
}

std::uint64_t digest(const std::vector<std::uint8_t>& bytes, std::uint64_t hash) {
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

// The script compares the line that is printed with that of another run.
void expect_equal_bits(Communicator& world, Device device) {
  Lab lab(device);
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t count : {1000, 1 << 20}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::to_string(count));
      const Tensor x = lab.empty(dtype, {count});
      std::vector<std::uint8_t> first;
      for (int again = 0; again < 4; ++again) {
        lab.write(x, values_of(world, count));
        world.all_reduce(x, ReduceOp::sum, lab.stream)->wait(lab.stream);
        const std::vector<std::uint8_t> now = lab.bytes(x);
        if (again == 0) first = now;
        EXPECT_EQ(first == now, true) << "run " << again;
      }
      expect_close(lab.read(x), sums_of(world, count), dtype == DType::f32 ? 1e-6 : 2e-2);
      const Tensor all = lab.empty(dtype, {world.size(), count});
      world.all_gather(all, x.view(), lab.stream)->wait(lab.stream);
      for (int r = 0; r < world.size(); ++r)
        EXPECT_EQ(lab.bytes(all.view().slice(0, r, 1)) == first, true) << "rank " << r;
      hash = digest(first, hash);
    }
  }
  std::printf("bits: %016llx\n", static_cast<unsigned long long>(hash));
}

// A step of a small training run: a kernel, a sum over the ranks, a kernel that uses it.
void compute(Lab& lab, Communicator& world, const View& y, const View& x) {
  lab->activation_forward(lab.stream, y, x, Activation::gelu);
  world.all_reduce(y, ReduceOp::sum, lab.stream)->wait(lab.stream);
  lab->activation_forward(lab.stream, x, y, Activation::gelu);
}

void expect_captured_as_uncaptured(Communicator& world, Device device) {
  Lab lab(device);
  constexpr std::int64_t kCount = 100'000;
  const Values mine = values_of(world, kCount);
  const Tensor x = lab.tensor(DType::f32, {kCount}, mine);
  const Tensor y = lab.full(DType::f32, {kCount}, 0);
  compute(lab, world, y, x);
  const std::vector<std::uint8_t> expected = lab.bytes(x);
  lab.write(x, mine);
  Graph graph(lab.stream, [&] { compute(lab, world, y, x); });
  EXPECT_EQ(lab.read(x), rounded(DType::f32, mine)) << "capturing must not run the work";
  for (int again = 0; again < 3; ++again) {
    lab.write(x, mine);
    graph.launch(lab.stream);
    EXPECT_EQ(lab.bytes(x) == expected, true) << "launch " << again;
  }
  // And the communicator still works without the graph.
  lab.write(x, mine);
  compute(lab, world, y, x);
  EXPECT_EQ(lab.bytes(x) == expected, true);
}

void expect_captured_messages(Communicator& world, Device device) {
  if (world.size() == 1) return;
  Lab lab(device);
  const int n = world.size(), me = world.rank();
  const Tensor out = lab.full(DType::i16, {5}, me);
  const Tensor in = lab.full(DType::i16, {5}, 99);
  const auto exchange = [&] {
    WorkHandle sent, got;
    world.grouped([&] {
      sent = world.send(out.view(), (me + 1) % n, lab.stream);
      got = world.recv(in, (me + n - 1) % n, lab.stream);
    });
    sent->wait(lab.stream);
    got->wait(lab.stream);
  };
  exchange();  // the first time two ranks meet, they connect, which is slow
  lab.write(in, Values(5, 99));
  Graph graph(lab.stream, exchange);
  graph.launch(lab.stream);
  EXPECT_EQ(lab.read(in), Values(5, (me + n - 1) % n));
}

// Operations of three communicators, the second and third split off one from the other, in turns.
void expect_parts_of_parts(Communicator& world, Device device) {
  Lab lab(device);
  constexpr std::int64_t kCount = 10'000;
  const int me = world.rank();
  const auto same_parity = world.split(me % 2, -me);
  const auto again = same_parity->split(0, me);
  const int part = (world.size() + 1 - me % 2) / 2;
  ASSERT_EQ(again->size(), part);
  EXPECT_EQ(again->rank(), me / 2);
  const Tensor x = lab.empty(DType::f64, {kCount});
  const std::pair<Communicator*, int> levels[] = {
      {&world, 1}, {same_parity.get(), 2}, {again.get(), 2}};
  for (int turn = 0; turn < 3; ++turn)
    for (const auto& [group, step] : levels) {
      lab.write(x, values_of(world, kCount));
      group->all_reduce(x, ReduceOp::sum, lab.stream)->wait(lab.stream);
      expect_close(lab.read(x), sums_of(world, kCount, step), 1e-14);
      group->barrier();
    }
}

void expect_refusals(Communicator& world, Device device) {
  Lab lab(device);
  const Tensor x = lab.full(DType::i16, {4}, 1);
  expect_error([&] { world.all_reduce(x, ReduceOp::sum, lab.stream); }, {"i16", "as i32"});
  const Tensor whole = lab.full(DType::i32, {4}, 1);
  expect_error([&] { world.all_reduce(whole, ReduceOp::avg, lab.stream); }, {"mean", "i32"});
  expect_error([&] { world.send(x.view(), world.size(), lab.stream); }, {"send", "group of"});
  Stream host{Device{}};
  expect_error([&] { world.broadcast(x, 0, host); }, {"broadcast", "cpu"});
  expect_error([&] { world.grouped([&] { world.barrier(); }); }, {"barrier", "group"});
  world.barrier();
}

// The last rank calls something else: all report who calls what, and can go on.
void expect_mismatches(Communicator& world, Device device) {
  if (world.size() == 1) return;
  Lab lab(device);
  const bool last = world.rank() + 1 == world.size();
  const auto part = world.split(0, -world.rank());
  const Tensor x = lab.full(DType::f32, {8}, 1);
  const auto sum = [&](Communicator& group, std::int64_t count, DType dtype, ReduceOp op) {
    group.all_reduce(lab.full(dtype, {count}, 1), op, lab.stream)->wait(lab.stream);
  };
  const auto check_reported = [&](const std::function<void()>& call,
                                  std::initializer_list<const char*> parts) {
    expect_error(call, parts);
    lab.write(x, Values(8, 1));
    world.all_reduce(x, ReduceOp::sum, lab.stream)->wait(lab.stream);
    EXPECT_EQ(lab.read(x), Values(8, world.size()));
  };
  const std::string who = "rank " + std::to_string(world.size() - 1) + " calls ";
  check_reported([&] { sum(world, last ? 9 : 8, DType::f32, ReduceOp::sum); },
                 {"ranks disagree in a collective: ", "all_reduce sum with f32 [8]",
                  (who + "all_reduce sum with f32 [9]").c_str()});
  check_reported([&] { sum(world, 8, last ? DType::bf16 : DType::f32, ReduceOp::sum); },
                 {(who + "all_reduce sum with bf16 [8]").c_str()});
  check_reported([&] { sum(world, 8, DType::f32, last ? ReduceOp::max : ReduceOp::sum); },
                 {(who + "all_reduce max with f32 [8]").c_str()});
  check_reported(
      [&] { world.broadcast(x, last ? 1 : 0, lab.stream)->wait(lab.stream); },
      {"broadcast from 0 with f32 [8]", (who + "broadcast from 1 with f32 [8]").c_str()});
  check_reported([&] { last ? world.barrier() : sum(world, 8, DType::f32, ReduceOp::sum); },
                 {(who + "barrier").c_str(), "all_reduce sum with f32 [8]"});
  check_reported(
      [&] { sum(*part, last ? 5 : 6, DType::f32, ReduceOp::sum); },
      {("rank 0 of a group (" + std::to_string(world.size() - 1) + " of the job)").c_str()});
}

}  // namespace

void register_nccl_tests(Communicator& world, Device device) {
  const auto add = [&](const std::string& name, const Body& body) {
    ::testing::RegisterTest(
        "Nccl", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [&world, device, body]() -> ::testing::Test* { return new NcclTest(world, device, body); });
  };
  add("Mismatches", expect_mismatches);  // first, since only first calls are compared
  for (const DType dtype : kTypes)
    add("Conforms_" + std::string(to_string(dtype)), [dtype](Communicator& group, Device where) {
      Conformance(group, where, dtype, kLeeway).expect_everything();
    });
  add("EqualBits", expect_equal_bits);
  add("CapturedAsUncaptured", expect_captured_as_uncaptured);
  add("CapturedMessages", expect_captured_messages);
  add("PartsOfParts", expect_parts_of_parts);
  add("Refusals", expect_refusals);
}

}  // namespace tessera::test
