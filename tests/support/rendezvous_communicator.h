// A communicator of threads whose messages are not buffered, as NCCL's are not: a message goes from
// the sender's memory to the receiver's when both are there, and until then neither Work is over.
// It is asked for without a wait. Whoever waits too long throws.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "tessera/base/check.h"
#include "tests/support/forwarding_communicator.h"

namespace tessera::test {

class RendezvousCommunicator final : public ForwardingCommunicator {
 public:
  /// All ranks of the group call it together.
  explicit RendezvousCommunicator(std::shared_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)), meeting_(std::make_shared<Meeting>()) {
    // They are threads: all take the first one's.
    auto address = reinterpret_cast<std::int64_t>(&meeting_);
    Stream stream{Device{}};
    inner_->broadcast(View(&address, DType::i64, {1}), 0, stream)->wait(stream);
    if (rank() > 0) meeting_ = *reinterpret_cast<const std::shared_ptr<Meeting>*>(address);
    inner_->barrier();
  }

  WorkHandle send(ConstView x, int to, Stream&) override {
    return meet({rank(), to}, {const_cast<void*>(x.raw()), x.bytes()}, true);
  }
  WorkHandle recv(View x, int from, Stream&) override {
    return meet({from, rank()}, {x.raw(), x.bytes()}, false);
  }
  bool receives_ahead() const override { return true; }
  std::shared_ptr<Communicator> split(int colour, int key) override {
    return std::make_shared<RendezvousCommunicator>(inner_->split(colour, key));
  }

 private:
  struct Side {
    void* memory = nullptr;
    std::size_t bytes = 0;
    std::shared_ptr<bool> over = std::make_shared<bool>(false);
  };
  using Sides = std::map<std::pair<int, int>, std::deque<Side>>;  // by from and to
  struct Meeting {
    std::mutex mutex;
    std::condition_variable met;
    Sides sends, recvs;
  };

  class MeetingWork final : public Work {
   public:
    MeetingWork(std::shared_ptr<Meeting> meeting, std::shared_ptr<bool> over)
        : meeting_(std::move(meeting)), over_(std::move(over)) {}
    void wait(Stream&) override {
      std::unique_lock lock(meeting_->mutex);
      check(meeting_->met.wait_for(lock, std::chrono::seconds(20), [&] { return *over_; }),
            "a message did not go over");
    }

   private:
    std::shared_ptr<Meeting> meeting_;
    std::shared_ptr<bool> over_;
  };

  // The later one of both copies.
  WorkHandle meet(const std::pair<int, int>& way, const Side& side, bool sends) {
    const std::lock_guard lock(meeting_->mutex);
    std::deque<Side>& mine = (sends ? meeting_->sends : meeting_->recvs)[way];
    std::deque<Side>& others = (sends ? meeting_->recvs : meeting_->sends)[way];
    auto work = std::make_shared<MeetingWork>(meeting_, side.over);
    if (others.empty()) {
      mine.push_back(side);
      return work;
    }
    const Side other = others.front();
    others.pop_front();
    check(other.bytes == side.bytes, "{} bytes meet {}", side.bytes, other.bytes);
    std::memcpy(sends ? other.memory : side.memory, sends ? side.memory : other.memory, side.bytes);
    *side.over = *other.over = true;
    meeting_->met.notify_all();
    return work;
  }

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace tessera::test
