// The conformance suite over the communicators of one process, and what the recording one counts.
#include "tests/comm/conformance.h"

#include "tessera/comm/recording.h"
#include "tessera/launch/launch.h"
#include "tests/support/devices.h"

namespace tessera {
namespace {

constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                            DType::i64, DType::i32, DType::i16,  DType::u8};

class SelfConformance : public testing::TestWithParam<Device> {};

TEST_P(SelfConformance, EveryType) {
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(to_string(dtype));
    const auto self = make_self_communicator();
    test::Conformance(*self, GetParam(), dtype).expect_everything();
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SelfConformance, testing::ValuesIn(test::devices()),
                         [](const auto& each) { return test::device_name(each.param); });

class LocalConformance : public testing::TestWithParam<int> {};

TEST_P(LocalConformance, EveryType) {
  run_ranks(GetParam(), 1, [](Rank& rank) {
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(to_string(dtype));
      test::Conformance(*rank.world, {}, dtype).expect_everything();
    }
  });
}

TEST_P(LocalConformance, ARecordingOneToo) {
  run_ranks(GetParam(), 1, [](Rank& rank) {
    CommCounts counts;
    const auto recording = make_recording_communicator(rank.world, counts);
    test::Conformance(*recording, {}, DType::f32).expect_everything();
    EXPECT_FALSE(counts.empty());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalConformance, testing::Values(1, 2, 3, 4, 8));

TEST(Recording, CountsCallsAndBytes) {
  run_ranks(2, 1, [](Rank& rank) {
    CommCounts counts;
    const auto group = make_recording_communicator(rank.world, counts);
    test::Lab lab;
    const Tensor x = lab.full(DType::bf16, {6}, 1), whole = lab.full(DType::bf16, {2, 6}, 1);
    for (int i = 0; i < 3; ++i) group->all_reduce(x, ReduceOp::sum, lab.stream)->wait(lab.stream);
    group->all_gather(whole, x.view(), lab.stream)->wait(lab.stream);
    group->reduce_scatter(x, whole.view(), ReduceOp::sum, lab.stream)->wait(lab.stream);
    group->barrier();
    EXPECT_EQ(counts, (CommCounts{{"all_reduce", {3, 36}},
                                  {"all_gather", {1, 24}},
                                  {"reduce_scatter", {1, 24}},
                                  {"barrier", {1, 0}}}));
  });
}

// Rank 1 expects fewer rows than rank 0 sends: both must get an error, and neither may wait
// forever.
TEST(LocalErrors, RowsThatDoNotMeet) {
  try {
    run_ranks(2, 1, [](Rank& rank) {
      test::Lab lab;
      const std::int64_t in_rows[] = {1, 2}, out_rows[] = {1, rank.rank == 0 ? 1 : 2};
      const Tensor in = lab.full(DType::f32, {3, 4}, 1);
      const Tensor out = lab.full(DType::f32, {out_rows[0] + out_rows[1], 4}, 0);
      rank.world->all_to_all_rows(out, out_rows, in.view(), in_rows, lab.stream);
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 sends 2 rows to rank 1, which expects 1"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
