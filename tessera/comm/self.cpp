// A group of one: a copy where input and output differ, nothing otherwise.
#include "tessera/base/check.h"
#include "tessera/comm/communicator.h"

namespace tessera {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  bool capturable() const override { return true; }
  WorkHandle all_reduce(View, ReduceOp, Stream&) override { return done_; }
  WorkHandle all_gather(View out, ConstView in, Stream& stream) override {
    return copy(out, in, stream);
  }
  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp, Stream& stream) override {
    return copy(out, in, stream);
  }
  WorkHandle broadcast(View, int, Stream&) override { return done_; }
  WorkHandle all_to_all(View out, ConstView in, Stream& stream) override {
    return copy(out, in, stream);
  }
  WorkHandle all_to_all_rows(View out, Rows, ConstView in, Rows, Stream& stream) override {
    return copy(out, in, stream);
  }
  WorkHandle send(ConstView, int to, Stream&) override {
    fail("send to rank {} of a group of one", to);
  }
  WorkHandle recv(View, int from, Stream&) override {
    fail("receive from rank {} of a group of one", from);
  }
  void barrier() override {}
  std::shared_ptr<Communicator> split(int, int) override { return make_self_communicator(); }

 private:
  WorkHandle copy(const View& out, const ConstView& in, Stream& stream) {
    check(out.bytes() == in.bytes() && out.is_contiguous() && in.is_contiguous(),
          "a group of one copies {} to {}: sizes differ or a view has gaps", in.to_string(),
          out.to_string());
    if (out.raw() != in.raw())
      stream.api().copy_bytes(stream.native(), out.raw(), in.raw(), in.bytes());
    return done_;
  }

  WorkHandle done_ = std::make_shared<Work>();
};

}  // namespace

std::shared_ptr<Communicator> make_self_communicator() {
  return std::make_shared<SelfCommunicator>();
}

}  // namespace tessera
