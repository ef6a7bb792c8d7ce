#include "tessera/comm/local.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/comm/call_checks.h"
#include "tessera/comm/reduce.h"
#include "tessera/comm/staged.h"

namespace tessera {
namespace {

// One flag for the whole process: a rank that fails releases every other, whatever group it waits
// in.
struct AbortFlag {
  std::mutex mutex;
  std::string reason;  // guarded by mutex; empty while all is well
  std::chrono::seconds timeout;
  std::vector<std::condition_variable*> waiting;
};

// One rank's call and arguments in a collective; the call must be the same on all ranks.
struct Offer {
  std::string call;  // "all_reduce sum"
  View buffer;
  Communicator::Rows in_rows, out_rows;  // for and from each rank, where they may differ
  bool patient = false;                  // no time limit
};

// The state of one group. All waits use the abort flag's mutex, so an abort misses no waiting rank.
struct Group {
  Group(int ranks, std::shared_ptr<AbortFlag> flag)
      : size(ranks),
        abort(std::move(flag)),
        here(static_cast<std::size_t>(ranks)),
        offers(static_cast<std::size_t>(ranks)),
        buffers(static_cast<std::size_t>(ranks)) {
    const std::lock_guard lock(abort->mutex);
    abort->waiting.push_back(&changed);
  }
  ~Group() {
    const std::lock_guard lock(abort->mutex);
    std::erase(abort->waiting, &changed);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Whether it came to be in time.
  bool wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready,
            bool patient = false) {
    const auto over = [&] { return !abort->reason.empty() || ready(); };
    if (patient)
      changed.wait(lock, over);
    else
      changed.wait_for(lock, abort->timeout, over);
    // Who may go on does, whatever else has happened: others rely on it.
    if (ready()) return true;
    check_alive();
    return false;
  }

  void check_alive() const {
    if (!abort->reason.empty()) fail("stopped, since another rank failed: {}", abort->reason);
  }

  // Counts the caller in, and returns the generation that ends when all are: the last one ends it.
  long arrive(int rank) {
    const long mine = generation;
    here[static_cast<std::size_t>(rank)] = true;
    if (++arrived == size) {
      arrived = 0;
      here.assign(here.size(), false);
      ++generation;
      changed.notify_all();
    }
    return mine;
  }

  void barrier(int rank) {
    std::unique_lock lock(abort->mutex);
    check_alive();
    const Offer& offer = offers[static_cast<std::size_t>(rank)];
    const long mine = arrive(rank);
    const auto all_came = [&] { return generation != mine; };
    if (all_came() || wait(lock, all_came, offer.patient)) return;
    const std::string late = missing();
    // Those who come now must not count on this rank.
    here[static_cast<std::size_t>(rank)] = false;
    --arrived;
    fail("{} did not come to {} within {} s", late, offer.call, abort->timeout.count());
  }

  std::string missing() const {
    std::string text;
    for (int r = 0; r < size; ++r)
      if (!here[static_cast<std::size_t>(r)])
        text += fmt::format("{}rank {}", text.empty() ? "" : ", ", r);
    return text;
  }

  // Ends a collective. No rank leaves, even after an abort, while another may still use its memory.
  // All ranks that entered arrive here, since nothing between entry and end waits for another rank.
  void leave(int rank) {
    std::unique_lock lock(abort->mutex);
    const long mine = arrive(rank);
    changed.wait(lock, [&] { return generation != mine; });
  }

  const int size;
  std::shared_ptr<AbortFlag> abort;
  std::condition_variable changed;
  int arrived = 0;
  std::vector<bool> here;  // who has arrived
  long generation = 0;
  std::vector<Offer> offers;
  std::vector<View> buffers;  // of the offers
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>>
      mail;  // (from, to): sent, not received
  // Colour -> the new group and its (key, rank) members. Making a group takes the abort mutex, so
  // joining one is guarded by a mutex of its own.
  std::map<int, std::pair<std::shared_ptr<Group>, std::vector<std::pair<int, int>>>> splits;
  std::mutex joining;
};

// Empty memory may have a null address, which memcpy must not get; and in an in-place gather a
// rank's part is already in its place.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }

  // Rank r reduces the r-th part of the elements of all buffers and writes it to all of them.
  WorkHandle all_reduce(View x, ReduceOp op, Stream&) override {
    return together(name_of_call("all_reduce", op), x, [&] {
      const Share share = share_of(x.numel());
      reduce_in_rank_order(group_->buffers, share.begin, share.end, op);
    });
  }

  WorkHandle all_gather(View out, ConstView in, Stream&) override {
    check_parts("all_gather", out, in, size());
    return together("all_gather", writable(in), [&] {
      for (int r = 0; r < size(); ++r) copy_part(out, r, buffer(r), 0, in.bytes());
    });
  }

  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream&) override {
    check_parts("reduce_scatter", in, out, size());
    return together(name_of_call("reduce_scatter", op), writable(in),
                    [&] { reduce_into(out, group_->buffers, rank_ * out.numel(), op); });
  }

  WorkHandle broadcast(View x, int root, Stream&) override {
    check_peer("broadcast", root, size());
    return together(fmt::format("broadcast from {}", root), x, [&] {
      if (rank_ != root) copy_bytes(x.raw(), buffer(root).raw(), x.bytes());
    });
  }

  WorkHandle all_to_all(View out, ConstView in, Stream&) override {
    check_all_to_all(out, in, size());
    const std::size_t part = in.bytes() / static_cast<std::size_t>(size());
    return together("all_to_all", writable(in), [&] {
      for (int r = 0; r < size(); ++r)
        copy_part(out, r, buffer(r), static_cast<std::size_t>(rank_) * part, part);
    });
  }

  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream&) override {
    check_all_to_all_rows(out, out_rows, in, in_rows, size());
    return together({"all_to_all_rows", writable(in), in_rows, out_rows}, [&] {
      std::int64_t to = 0;
      for (int r = 0; r < size(); ++r) {
        const Offer& other = group_->offers[static_cast<std::size_t>(r)];
        const std::int64_t rows = out_rows[static_cast<std::size_t>(r)];
        const std::int64_t from =
            std::accumulate(other.in_rows.begin(), other.in_rows.begin() + rank_, std::int64_t{0});
        const View part = out.slice(0, to, rows);
        copy_bytes(part.raw(), other.buffer.slice(0, from, rows).raw(), part.bytes());
        to += rows;
      }
    });
  }

  // A send copies and returns, so that two neighbours may send to each other at once.
  WorkHandle send(ConstView x, int to, Stream&) override {
    check_peer("send", to, size());
    check(x.is_contiguous(), "send needs contiguous memory, got {}", x.to_string());
    const auto* bytes = static_cast<const std::byte*>(x.raw());
    const std::lock_guard lock(group_->abort->mutex);
    group_->mail[{rank_, to}].emplace_back(bytes, bytes + x.bytes());
    group_->changed.notify_all();
    return done_;
  }

  WorkHandle recv(View x, int from, Stream&) override {
    check_peer("recv", from, size());
    check(x.is_contiguous(), "recv needs contiguous memory, got {}", x.to_string());
    std::unique_lock lock(group_->abort->mutex);
    auto& queue = group_->mail[{from, rank_}];
    check(group_->wait(lock, [&] { return !queue.empty(); }),
          "rank {} did not send to rank {} within {} s", from, rank_,
          group_->abort->timeout.count());
    const std::vector<std::byte> message = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    check(message.size() == x.bytes(), "rank {} sent {} bytes to rank {}, which expects {}", from,
          message.size(), rank_, x.to_string());
    copy_bytes(x.raw(), message.data(), message.size());
    return done_;
  }

  void barrier() override { meet("barrier"); }
  void barrier_without_timeout() override {
    together(Offer{"barrier_without_timeout", View(nullptr, DType::u8, {0}), {}, {}, true}, [] {});
  }

  std::shared_ptr<Communicator> split(int colour, int key) override {
    {
      const std::lock_guard lock(group_->abort->mutex);
      group_->splits[colour].second.emplace_back(key, rank_);
    }
    meet("split");  // all have said where they go
    std::shared_ptr<Group> part = join_part(colour);
    auto members = group_->splits.at(colour).second;
    std::sort(members.begin(), members.end());
    const auto place =
        std::find(members.begin(), members.end(), std::pair(key, rank_)) - members.begin();
    meet("split");  // all have read
    if (rank_ == 0) group_->splits.clear();
    meet("split");
    return std::make_shared<LocalCommunicator>(std::move(part), static_cast<int>(place));
  }

 private:
  struct Share {
    std::int64_t begin, end;
  };

  Share share_of(std::int64_t n) const { return {n * rank_ / size(), n * (rank_ + 1) / size()}; }

  const View& buffer(int rank) const { return group_->buffers[static_cast<std::size_t>(rank)]; }

  // A call without data.
  void meet(const char* call) {
    together(call, View(nullptr, DType::u8, {0}), [] {});
  }

  WorkHandle together(const std::string& call, const View& mine,
                      const std::function<void()>& body) {
    return together(Offer{call, mine, {}, {}}, body);
  }

  // Shows this rank's call and buffer to the others, checks that they agree, works, and leaves when
  // all are done.
  WorkHandle together(const Offer& mine, const std::function<void()>& body) {
    check_contiguous(mine.buffer);
    group_->offers[static_cast<std::size_t>(rank_)] = mine;
    group_->buffers[static_cast<std::size_t>(rank_)] = mine.buffer;
    group_->barrier(rank_);
    for (int r = 0; r < size(); ++r) {
      const Offer& other = group_->offers[static_cast<std::size_t>(r)];
      check(agree(mine, other),
            "ranks disagree in a collective: rank {} calls {} with {}, rank {} calls {} with {}",
            rank_, mine.call, mine.buffer.to_string(), r, other.call, other.buffer.to_string());
    }
    if (!mine.in_rows.empty()) check_rows_meet();
    body();
    group_->leave(rank_);
    return done_;
  }

  static bool agree(const Offer& a, const Offer& b) {
    if (a.call != b.call || a.buffer.dtype() != b.buffer.dtype()) return false;
    return a.in_rows.empty() ? a.buffer.numel() == b.buffer.numel()
                             : row_elements(a.buffer) == row_elements(b.buffer);
  }

  void check_rows_meet() const {
    std::vector<Rows> in_rows, out_rows;
    for (const Offer& offer : group_->offers) {
      in_rows.push_back(offer.in_rows);
      out_rows.push_back(offer.out_rows);
    }
    check_exchange(in_rows, out_rows);
  }

  static void copy_part(const View& out, int part, const View& from, std::size_t offset,
                        std::size_t bytes) {
    copy_bytes(static_cast<std::byte*>(out.raw()) + static_cast<std::size_t>(part) * bytes,
               static_cast<const std::byte*>(from.raw()) + offset, bytes);
  }

  std::shared_ptr<Group> join_part(int colour) {
    const std::lock_guard join(group_->joining);
    auto& [part, members] = group_->splits[colour];
    if (!part) part = std::make_shared<Group>(static_cast<int>(members.size()), group_->abort);
    return part;
  }

  std::shared_ptr<Group> group_;
  int rank_;
  WorkHandle done_ = std::make_shared<Work>();
};

}  // namespace

struct LocalWorld::Shared {
  Shared(int size, std::chrono::seconds timeout)
      : abort(std::make_shared<AbortFlag>()), group(std::make_shared<Group>(size, abort)) {
    abort->timeout = timeout;
  }
  std::shared_ptr<AbortFlag> abort;
  std::shared_ptr<Group> group;
};

LocalWorld::LocalWorld(int size, std::chrono::seconds timeout)
    : shared_(std::make_shared<Shared>(size, timeout)) {
  check(size >= 1, "a world needs at least one rank, got {}", size);
}
LocalWorld::~LocalWorld() = default;

std::shared_ptr<Communicator> LocalWorld::communicator(int rank) {
  return make_staged_communicator(std::make_shared<LocalCommunicator>(shared_->group, rank));
}

void LocalWorld::abort(const std::string& reason) {
  const std::lock_guard lock(shared_->abort->mutex);
  if (shared_->abort->reason.empty()) shared_->abort->reason = reason;
  for (std::condition_variable* waiting : shared_->abort->waiting) waiting->notify_all();
}

}  // namespace tessera
