// A communicator whose calls do nothing: one rank's computation can then be measured without its
// group. Groups have the rank and the size of those of another communicator.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tessera/comm/communicator.h"

namespace tessera::bench {

class SilentCommunicator final : public Communicator {
 public:
  explicit SilentCommunicator(std::shared_ptr<Communicator> of) : of_(std::move(of)) {}

  int rank() const override { return of_->rank(); }
  int size() const override { return of_->size(); }
  WorkHandle all_reduce(View, ReduceOp, Stream&) override { return done(); }
  WorkHandle all_gather(View, ConstView, Stream&) override { return done(); }
  WorkHandle reduce_scatter(View, ConstView, ReduceOp, Stream&) override { return done(); }
  WorkHandle broadcast(View, int, Stream&) override { return done(); }
  WorkHandle all_to_all(View, ConstView, Stream&) override { return done(); }
  WorkHandle all_to_all_rows(View, Rows, ConstView, Rows, Stream&) override { return done(); }
  WorkHandle send(ConstView, int, Stream&) override { return done(); }
  WorkHandle recv(View, int, Stream&) override { return done(); }
  void barrier() override {}
  std::shared_ptr<Communicator> split(int colour, int key) override {
    return std::make_shared<SilentCommunicator>(of_->split(colour, key));
  }

 private:
  static WorkHandle done() { return std::make_shared<Work>(); }

  std::shared_ptr<Communicator> of_;
};

}  // namespace tessera::bench
