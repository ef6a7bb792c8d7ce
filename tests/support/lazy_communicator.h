// A communicator that does nothing before its Works are waited on: what a layer does not wait for
// never happens, so that a missing wait shows in the result.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/forwarding_communicator.h"

namespace tessera::test {

class LazyCommunicator final : public ForwardingCommunicator {
 public:
  /// `sends`: messages, too, are sent when they are waited for, so that memory that is written too
  /// early shows.
  explicit LazyCommunicator(std::shared_ptr<Communicator> inner, bool sends = false)
      : ForwardingCommunicator(std::move(inner)), sends_(sends) {}

  WorkHandle all_reduce(View x, ReduceOp op, Stream&) override {
    return later([=](Communicator& c, Stream& s) { c.all_reduce(x, op, s)->wait(s); });
  }
  WorkHandle all_gather(View out, ConstView in, Stream&) override {
    return later([=](Communicator& c, Stream& s) { c.all_gather(out, in, s)->wait(s); });
  }
  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream&) override {
    return later([=](Communicator& c, Stream& s) { c.reduce_scatter(out, in, op, s)->wait(s); });
  }
  WorkHandle broadcast(View x, int root, Stream&) override {
    return later([=](Communicator& c, Stream& s) { c.broadcast(x, root, s)->wait(s); });
  }
  WorkHandle all_to_all(View out, ConstView in, Stream&) override {
    return later([=](Communicator& c, Stream& s) { c.all_to_all(out, in, s)->wait(s); });
  }
  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream&) override {
    const std::vector<std::int64_t> to(out_rows.begin(), out_rows.end());
    const std::vector<std::int64_t> from(in_rows.begin(), in_rows.end());
    return later(
        [=](Communicator& c, Stream& s) { c.all_to_all_rows(out, to, in, from, s)->wait(s); });
  }
  WorkHandle send(ConstView x, int to, Stream& stream) override {
    if (!sends_) return inner_->send(x, to, stream);
    return later([=](Communicator& c, Stream& s) { c.send(x, to, s)->wait(s); });
  }
  WorkHandle recv(View x, int from, Stream&) override {
    return later([=](Communicator& c, Stream& s) { c.recv(x, from, s)->wait(s); });
  }
  std::shared_ptr<Communicator> split(int colour, int key) override {
    return std::make_shared<LazyCommunicator>(inner_->split(colour, key), sends_);
  }

 private:
  using Call = std::function<void(Communicator&, Stream&)>;

  class LazyWork final : public Work {
   public:
    LazyWork(std::shared_ptr<Communicator> inner, Call call)
        : inner_(std::move(inner)), call_(std::move(call)) {}
    void wait(Stream& stream) override {
      if (const Call call = std::exchange(call_, nullptr)) call(*inner_, stream);
    }

   private:
    std::shared_ptr<Communicator> inner_;
    Call call_;
  };

  bool sends_;

  WorkHandle later(Call call) { return std::make_shared<LazyWork>(inner_, std::move(call)); }
};

}  // namespace tessera::test
