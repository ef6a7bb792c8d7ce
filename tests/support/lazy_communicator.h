// A communicator that does nothing before its Works are waited on: what a layer does not wait for
// never happens, so that a missing wait shows in the result.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tests/support/forwarding_communicator.h"

namespace tessera::test {

class LazyCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

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
  WorkHandle recv(View x, int from, Stream&) override {
    return later([=](Communicator& c, Stream& s) { c.recv(x, from, s)->wait(s); });
  }
  std::shared_ptr<Communicator> split(int colour, int key) override {
    return std::make_shared<LazyCommunicator>(inner_->split(colour, key));
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

  WorkHandle later(Call call) { return std::make_shared<LazyWork>(inner_, std::move(call)); }
};

}  // namespace tessera::test
