// Streams, events and graphs, on every device there is.
#include "tessera/tensor/stream.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tessera/tensor/memory.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

class StreamTest : public ::testing::TestWithParam<Device> {
 protected:
  void copy(Stream& stream, const View& to, const ConstView& from) {
    stream.api().copy_bytes(stream.native(), to.raw(), from.raw(), to.bytes());
  }
  Tensor upload(const std::vector<std::int32_t>& values) {
    const auto n = static_cast<std::int64_t>(values.size());
    Tensor x = memory_.allocate(MemoryUse::data, DType::i32, {n});
    copy(stream_, x, ConstView(values.data(), DType::i32, {n}));
    return x;
  }
  std::vector<std::int32_t> download(const Tensor& x) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(x.view().numel()));
    copy(stream_, View(values.data(), DType::i32, x.view().shape()), x);
    stream_.synchronize();
    return values;
  }

  Stream stream_{GetParam()};
  Memory memory_{GetParam()};
};

TEST_P(StreamTest, CopiesToTheDeviceAndBack) {
  const std::vector<std::int32_t> values{1, 2, 3};
  EXPECT_EQ(download(upload(values)), values);
  EXPECT_EQ(stream_.device(), GetParam());
  EXPECT_EQ(memory_.device(), GetParam());
}

TEST_P(StreamTest, AnEventOrdersTwoStreams) {
  const Tensor from = upload({4, 5});
  const Tensor to = upload({0, 0});
  Stream other(GetParam());
  Event ready(GetParam());
  ready.record(stream_);
  ready.wait(other);
  copy(other, to, from);
  Event copied(GetParam());
  copied.record(other);
  copied.wait(stream_);
  EXPECT_EQ(download(to), (std::vector<std::int32_t>{4, 5}));
}

TEST_P(StreamTest, AGraphRunsWhenLaunchedAndNotWhenCaptured) {
  const Tensor from = upload({1});
  const Tensor to = upload({0});
  stream_.synchronize();
  Graph graph(stream_, [&] { copy(stream_, to, from); });
  EXPECT_EQ(download(to)[0], 0) << "capturing must not run the work";
  graph.launch(stream_);
  EXPECT_EQ(download(to)[0], 1);
}

TEST_P(StreamTest, AGraphSeesWhatItsAddressesHoldAtLaunch) {
  const Tensor from = upload({1});
  const Tensor to = upload({0});
  stream_.synchronize();
  Graph graph(stream_, [&] { copy(stream_, to, from); });
  for (const std::int32_t value : {5, 6}) {
    copy(stream_, from, ConstView(&value, DType::i32, {1}));
    graph.launch(stream_);
    EXPECT_EQ(download(to)[0], value);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StreamTest, ::testing::ValuesIn(test::devices()),
                         [](const auto& each) { return test::device_name(each.param); });

TEST(Device, HasAName) {
  EXPECT_EQ(to_string(Device{}), "cpu");
  EXPECT_EQ(to_string(Device{DeviceKind::cuda, 3}), "cuda:3");
}

TEST(Device, CudaInABuildWithoutItIsAnErrorForTheUser) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "this build has CUDA";
  const Device missing{DeviceKind::cuda, 0};
  test::expect_input_error([&] { Stream stream(missing); }, {"no CUDA", "--device cpu"});
  test::expect_input_error([&] { Memory memory(missing); }, {"no CUDA", "--device cpu"});
}

}  // namespace
}  // namespace tessera
