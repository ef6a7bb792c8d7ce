// A group of processes and the two things that all its calls are made of: ranks meet, so that they
// know that they make the same call, and then they exchange bytes. For the progress thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/call_offer.h"
#include "tessera/comm/mpi/engine.h"
#include "tessera/comm/mpi/tags.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Memory that goes to a rank or comes from it.
struct MpiPart {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Fills a part from memory that may be its own.
void copy_into(const MpiPart& to, const void* from);

class MpiGroup {
 public:
  /// What the ranks brought.
  struct Meeting {
    std::vector<CallOffer> offers;
    std::vector<std::byte*> attachments;  ///< good until the next meeting
  };
  /// The most that a rank can bring along. Above this, sharing the work pays.
  static constexpr std::size_t kMostAttached = std::size_t{16} << 10;

  /// `ranks` are those of the job, in the order of the group.
  MpiGroup(std::shared_ptr<MpiEngine> engine, std::vector<int> ranks, int number);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  MpiEngine& engine() const { return *engine_; }

  /// Waits until all ranks have brought an offer, with bytes for all others or without. Throws on
  /// all ranks when they disagree.
  Meeting meet(const CallOffer& mine, MpiPart attached = {},
               CallConsistency consistency = CallConsistency::elements,
               MpiPatience patience = MpiPatience::limited);
  /// Sends out[r] to rank r and receives in[r] from it. `mine` is for messages.
  void exchange(std::span<const MpiPart> out, std::span<const MpiPart> in, const CallOffer& mine);

  /// Copies x and sends it. For every thread.
  void send(const ConstView& x, int to) const;
  void receive(const View& x, int from) const;

  std::shared_ptr<MpiGroup> split(int colour, int key);

 private:
  int place_of(int job_rank) const;
  // Waits for messages that all ranks of the group owe each other.
  void finish(MpiRequests& requests, const std::string& what,
              MpiPatience patience = MpiPatience::limited);
  // Says who is late, or has ended. `what` is what they did not do.
  [[noreturn]] void fail_missing(const MpiRequests& requests, const std::string& what) const;

  std::shared_ptr<MpiEngine> engine_;
  std::vector<int> ranks_;
  MpiTags tags_;
  int rank_;
  bool broken_ = false;  // a call was given up in the middle
};

}  // namespace tessera
