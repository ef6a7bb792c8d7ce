#include "tessera/comm/recording.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::shared_ptr<Communicator> inner, CommCounts& counts)
      : inner_(std::move(inner)), counts_(counts) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool capturable() const override { return inner_->capturable(); }
  bool receives_ahead() const override { return inner_->receives_ahead(); }
  void launch_with_timeout(Stream& stream, const std::function<void()>& launch) override {
    inner_->launch_with_timeout(stream, launch);
  }

  WorkHandle all_reduce(View x, ReduceOp op, Stream& stream) override {
    count("all_reduce", x.bytes());
    return inner_->all_reduce(x, op, stream);
  }
  WorkHandle all_gather(View out, ConstView in, Stream& stream) override {
    count("all_gather", out.bytes());
    return inner_->all_gather(out, in, stream);
  }
  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream& stream) override {
    count("reduce_scatter", in.bytes());
    return inner_->reduce_scatter(out, in, op, stream);
  }
  WorkHandle broadcast(View x, int root, Stream& stream) override {
    count("broadcast", x.bytes());
    return inner_->broadcast(x, root, stream);
  }
  WorkHandle all_to_all(View out, ConstView in, Stream& stream) override {
    count("all_to_all", in.bytes());
    return inner_->all_to_all(out, in, stream);
  }
  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream& stream) override {
    count("all_to_all_rows", std::max(in.bytes(), out.bytes()));
    return inner_->all_to_all_rows(out, out_rows, in, in_rows, stream);
  }
  WorkHandle send(ConstView x, int to, Stream& stream) override {
    count("send", x.bytes());
    return inner_->send(x, to, stream);
  }
  WorkHandle recv(View x, int from, Stream& stream) override {
    count("recv", x.bytes());
    return inner_->recv(x, from, stream);
  }
  void grouped(const std::function<void()>& calls) override { inner_->grouped(calls); }
  void barrier() override {
    count("barrier", 0);
    inner_->barrier();
  }
  void barrier_without_timeout() override {
    count("barrier_without_timeout", 0);
    inner_->barrier_without_timeout();
  }
  std::shared_ptr<Communicator> split(int colour, int key) override {
    std::shared_ptr<Communicator> group = inner_->split(colour, key);
    if (group->size() == 1) return group;
    return std::make_shared<RecordingCommunicator>(std::move(group), counts_);
  }

 private:
  void count(const char* call, std::size_t bytes) {
    CommCount& count = counts_[call];
    count.calls += 1;
    count.bytes += static_cast<std::int64_t>(bytes);
  }

  std::shared_ptr<Communicator> inner_;
  CommCounts& counts_;
};

}  // namespace

std::shared_ptr<Communicator> make_recording_communicator(std::shared_ptr<Communicator> inner,
                                                          CommCounts& counts) {
  return std::make_shared<RecordingCommunicator>(std::move(inner), counts);
}

}  // namespace tessera
