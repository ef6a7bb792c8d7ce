// A group of processes with the two primitives of all its calls: a meeting, in which ranks check
// that they make the same call, and an exchange of bytes. Used by the progress thread.
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

/// Memory that is sent to or received from a rank.
struct MpiPart {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Copies into a part; source and destination may be the same.
void copy_into(const MpiPart& to, const void* from);

class MpiGroup {
 public:
  /// The data that the ranks brought to a meeting.
  struct Meeting {
    std::vector<CallOffer> offers;
    std::vector<std::byte*> attachments;  ///< valid until the next meeting
  };
  /// The largest attachment of a meeting. For more data an exchange is faster.
  static constexpr std::size_t kMostAttached = std::size_t{16} << 10;

  /// `ranks` are the group's ranks in the job, in the order of the group.
  MpiGroup(std::shared_ptr<MpiEngine> engine, std::vector<int> ranks, int number);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  MpiEngine& engine() const { return *engine_; }

  /// Waits until all ranks have brought an offer, with or without bytes for all others. Throws on
  /// all ranks if they disagree.
  Meeting meet(const CallOffer& mine, MpiPart attached = {},
               CallConsistency consistency = CallConsistency::elements,
               MpiPatience patience = MpiPatience::limited);
  /// Sends out[r] to rank r and receives in[r] from it. `mine` describes the call in errors.
  void exchange(std::span<const MpiPart> out, std::span<const MpiPart> in, const CallOffer& mine);

  /// Copies x and sends it. Thread-safe.
  void send(const ConstView& x, int to) const;
  void receive(const View& x, int from) const;

  std::shared_ptr<MpiGroup> split(int colour, int key);

 private:
  int place_of(int job_rank) const;
  // Waits for messages between all ranks of the group.
  void finish(MpiRequests& requests, const std::string& what,
              MpiPatience patience = MpiPatience::limited);
  // Throws an error that names the ranks that are late or have exited. `what` describes what they
  // did not do.
  [[noreturn]] void fail_missing(const MpiRequests& requests, const std::string& what) const;

  std::shared_ptr<MpiEngine> engine_;
  std::vector<int> ranks_;
  MpiTags tags_;
  int rank_;
  bool broken_ = false;  // a call was abandoned in the middle
};

}  // namespace tessera
