// The point-to-point channels of a pipeline: a communicator of two for each pair of neighbours and
// each direction. So messages of one direction come in the order in which they are sent, whatever
// else is under way, and a recv that is asked for early holds nothing up.
#pragma once

#include <map>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

class PipelineChannels {
 public:
  /// All ranks of the pipeline call it together. A first message goes over every channel: a
  /// transport that connects ranks when they first talk (NCCL) makes a rank wait for the other
  /// then, and only then.
  PipelineChannels(Communicator& pipeline, const PipelineShape& shape, Stream& stream);

  int rank() const { return rank_; }
  /// Whether a recv from this rank may be asked for before it is needed.
  bool receives_ahead(int from) const { return at(from_, from).receives_ahead(); }
  WorkHandle send(ConstView x, int to, Stream& stream);
  WorkHandle recv(View x, int from, Stream& stream);

 private:
  /// Groups of two, of which the first rank sends.
  using Groups = std::map<int, std::shared_ptr<Communicator>>;
  static void greet(Communicator& group, Stream& stream);
  Communicator& at(const Groups& channels, int peer) const;

  int rank_;
  Groups to_;    ///< by the rank that receives
  Groups from_;  ///< by the rank that sends
};

}  // namespace tessera
