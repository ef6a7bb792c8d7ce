// A communicator that passes every call on to another, for tests that change some of them.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tessera/comm/communicator.h"

namespace tessera::test {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::shared_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  WorkHandle all_reduce(View x, ReduceOp op, Stream& s) override {
    return inner_->all_reduce(x, op, s);
  }
  WorkHandle all_gather(View out, ConstView in, Stream& s) override {
    return inner_->all_gather(out, in, s);
  }
  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream& s) override {
    return inner_->reduce_scatter(out, in, op, s);
  }
  WorkHandle broadcast(View x, int root, Stream& s) override {
    return inner_->broadcast(x, root, s);
  }
  WorkHandle all_to_all(View out, ConstView in, Stream& s) override {
    return inner_->all_to_all(out, in, s);
  }
  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream& s) override {
    return inner_->all_to_all_rows(out, out_rows, in, in_rows, s);
  }
  WorkHandle send(ConstView x, int to, Stream& s) override { return inner_->send(x, to, s); }
  WorkHandle recv(View x, int from, Stream& s) override { return inner_->recv(x, from, s); }
  void grouped(const std::function<void()>& calls) override { inner_->grouped(calls); }
  void barrier() override { inner_->barrier(); }
  void barrier_without_timeout() override { inner_->barrier_without_timeout(); }
  std::shared_ptr<Communicator> split(int colour, int key) override {
    return inner_->split(colour, key);
  }

 protected:
  std::shared_ptr<Communicator> inner_;
};

}  // namespace tessera::test
