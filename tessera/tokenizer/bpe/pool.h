// A pool of reusable objects: a thread takes one and returns it, so that there are never more
// objects than threads that work at the same time.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tessera {

template <class Thing>
class Pool {
 public:
  /// One that was given back, or a new one.
  std::unique_ptr<Thing> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Thing>();
    std::unique_ptr<Thing> thing = std::move(free_.back());
    free_.pop_back();
    return thing;
  }
  void give_back(std::unique_ptr<Thing> thing) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(thing));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Thing>> free_;
};

}  // namespace tessera
