#include "tessera/comm/waiting.h"

#include <chrono>
#include <utility>

namespace tessera {
namespace {

// From its making to its end the rank is held up.
class Held {
 public:
  explicit Held(ExposedTime& time) : time_(time), start_(Clock::now()) {}
  ~Held() { time_.seconds += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  ExposedTime& time_;
  Clock::time_point start_;
};

class WaitingWork final : public Work {
 public:
  WaitingWork(WorkHandle inner, ExposedTime& time) : inner_(std::move(inner)), time_(time) {}
  // Destroying a Work may block (communicator.h).
  ~WaitingWork() override {
    const Held held(time_);
    inner_.reset();
  }
  WaitingWork(const WaitingWork&) = delete;
  WaitingWork& operator=(const WaitingWork&) = delete;

  void wait(Stream& stream) override {
    const Held held(time_);
    inner_->wait(stream);
  }

 private:
  WorkHandle inner_;
  ExposedTime& time_;
};

class WaitingCommunicator final : public Communicator {
 public:
  WaitingCommunicator(std::shared_ptr<Communicator> inner, ExposedTime& time)
      : inner_(std::move(inner)), time_(time) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool capturable() const override { return inner_->capturable(); }
  bool receives_ahead() const override { return inner_->receives_ahead(); }
  void launch_with_timeout(Stream& stream, const std::function<void()>& launch) override {
    inner_->launch_with_timeout(stream, launch);
  }

  WorkHandle all_reduce(View x, ReduceOp op, Stream& stream) override {
    return timed(stream, [&] { return inner_->all_reduce(x, op, stream); });
  }
  WorkHandle all_gather(View out, ConstView in, Stream& stream) override {
    return timed(stream, [&] { return inner_->all_gather(out, in, stream); });
  }
  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream& stream) override {
    return timed(stream, [&] { return inner_->reduce_scatter(out, in, op, stream); });
  }
  WorkHandle broadcast(View x, int root, Stream& stream) override {
    return timed(stream, [&] { return inner_->broadcast(x, root, stream); });
  }
  WorkHandle all_to_all(View out, ConstView in, Stream& stream) override {
    return timed(stream, [&] { return inner_->all_to_all(out, in, stream); });
  }
  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream& stream) override {
    return timed(stream,
                 [&] { return inner_->all_to_all_rows(out, out_rows, in, in_rows, stream); });
  }
  WorkHandle send(ConstView x, int to, Stream& stream) override {
    return timed(stream, [&] { return inner_->send(x, to, stream); });
  }
  WorkHandle recv(View x, int from, Stream& stream) override {
    return timed(stream, [&] { return inner_->recv(x, from, stream); });
  }
  // Its calls come here one by one, and between CPUs they work one by one.
  void grouped(const std::function<void()>& calls) override { inner_->grouped(calls); }
  void barrier() override {
    const Held held(time_);
    inner_->barrier();
  }
  void barrier_without_timeout() override {
    const Held held(time_);
    inner_->barrier_without_timeout();
  }
  std::shared_ptr<Communicator> split(int colour, int key) override {
    std::shared_ptr<Communicator> group = inner_->split(colour, key);
    if (group->size() == 1) return group;
    return std::make_shared<WaitingCommunicator>(std::move(group), time_);
  }

 private:
  template <class Call>
  WorkHandle timed(const Stream& stream, const Call& call) {
    if (stream.device().kind != DeviceKind::cpu) return call();
    const Held held(time_);
    return std::make_shared<WaitingWork>(call(), time_);
  }

  std::shared_ptr<Communicator> inner_;
  ExposedTime& time_;
};

}  // namespace

std::shared_ptr<Communicator> make_waiting_communicator(std::shared_ptr<Communicator> inner,
                                                        ExposedTime& time) {
  return std::make_shared<WaitingCommunicator>(std::move(inner), time);
}

}  // namespace tessera
