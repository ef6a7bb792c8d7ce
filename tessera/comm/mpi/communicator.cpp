#include "tessera/comm/mpi/communicator.h"

#include <exception>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/comm/call_checks.h"
#include "tessera/comm/mpi/collectives.h"

namespace tessera {
namespace {

// A call that the progress thread has in hand.
class MpiWork final : public Work {
 public:
  MpiWork(std::shared_ptr<MpiGroup> group, std::shared_future<void> done)
      : group_(std::move(group)), done_(std::move(done)) {}
  // The call's memory may be freed after this, so it waits until the call is done. While an
  // exception unwinds this rank, it does not wait for other ranks, which may never make the call.
  ~MpiWork() override {
    using namespace std::chrono_literals;
    std::exception_ptr given_up;
    if (std::uncaught_exceptions() > 0 && done_.wait_for(0s) != std::future_status::ready)
      given_up = group_->engine().give_up();
    done_.wait();
    if (given_up) group_->engine().forget(given_up);
  }
  MpiWork(const MpiWork&) = delete;
  MpiWork& operator=(const MpiWork&) = delete;

  void wait(Stream&) override { group_->engine().wait(done_); }

 private:
  std::shared_ptr<MpiGroup> group_;
  std::shared_future<void> done_;
};

// Checks what this rank can check alone, and hands the rest to the progress thread.
class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<MpiGroup> group) : group_(std::move(group)) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }

  WorkHandle all_reduce(View x, ReduceOp op, Stream&) override {
    check_contiguous(x);
    return start([group = group_, x, op] { mpi_all_reduce(*group, x, op); });
  }

  WorkHandle all_gather(View out, ConstView in, Stream&) override {
    check_parts("all_gather", out, in, size());
    return start([group = group_, out, in] { mpi_all_gather(*group, out, in); });
  }

  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream&) override {
    check_parts("reduce_scatter", in, out, size());
    return start([group = group_, out, in, op] { mpi_reduce_scatter(*group, out, in, op); });
  }

  WorkHandle broadcast(View x, int root, Stream&) override {
    check_peer("broadcast", root, size());
    check_contiguous(x);
    return start([group = group_, x, root] { mpi_broadcast(*group, x, root); });
  }

  WorkHandle all_to_all(View out, ConstView in, Stream&) override {
    check_all_to_all(out, in, size());
    return start([group = group_, out, in] { mpi_all_to_all(*group, out, in); });
  }

  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream&) override {
    check_all_to_all_rows(out, out_rows, in, in_rows, size());
    return start([group = group_, out, in, to = std::vector(out_rows.begin(), out_rows.end()),
                  from = std::vector(in_rows.begin(), in_rows.end())] {
      mpi_all_to_all_rows(*group, out, to, in, from);
    });
  }

  WorkHandle send(ConstView x, int to, Stream&) override {
    check_peer("send", to, size());
    check(x.is_contiguous(), "send needs contiguous memory, got {}", x);
    group_->send(x, to);
    return done_;
  }

  WorkHandle recv(View x, int from, Stream&) override {
    check_peer("recv", from, size());
    check(x.is_contiguous(), "recv needs contiguous memory, got {}", x);
    return start([group = group_, x, from] { group->receive(x, from); });
  }

  void barrier() override {
    run([group = group_] { group->meet(CallOffer("barrier")); });
  }
  void barrier_without_timeout() override {
    run([group = group_] {
      group->meet(CallOffer("barrier_without_timeout"), {}, CallConsistency::elements,
                  MpiPatience::endless);
    });
  }

  std::shared_ptr<Communicator> split(int colour, int key) override {
    std::shared_ptr<MpiGroup> part;
    run([&] { part = group_->split(colour, key); });
    return make_mpi_communicator(std::move(part));
  }

 private:
  WorkHandle start(std::function<void()> call) {
    return std::make_shared<MpiWork>(group_, group_->engine().submit(std::move(call)));
  }
  void run(std::function<void()> call) {
    group_->engine().wait(group_->engine().submit(std::move(call)));
  }

  std::shared_ptr<MpiGroup> group_;
  WorkHandle done_ = std::make_shared<Work>();
};

}  // namespace

std::shared_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiGroup> group) {
  if (group->size() == 1) return make_self_communicator();
  return std::make_shared<MpiCommunicator>(std::move(group));
}

}  // namespace tessera
