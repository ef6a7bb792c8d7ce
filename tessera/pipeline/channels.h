// The point-to-point channels of a pipeline: a communicator of two ranks for each pair of
// neighbours and each direction. Messages of one direction therefore arrive in the order in which
// they are sent, independent of other traffic, and a recv that is posted early blocks nothing else.
#pragma once

#include <map>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

class PipelineChannels {
 public:
  /// All ranks of the pipeline call it together. Sends a first message over every channel: NCCL
  /// connects two ranks at their first message and blocks both until then.
  PipelineChannels(Communicator& pipeline, const PipelineShape& shape, Stream& stream);

  int rank() const { return rank_; }
  /// Whether a recv from this rank may be posted before its data is needed.
  bool receives_ahead(int from) const { return at(from_, from).receives_ahead(); }
  WorkHandle send(ConstView x, int to, Stream& stream);
  WorkHandle recv(View x, int from, Stream& stream);

 private:
  /// Groups of two ranks; the first one sends.
  using Groups = std::map<int, std::shared_ptr<Communicator>>;
  static void greet(Communicator& group, Stream& stream);
  Communicator& at(const Groups& channels, int peer) const;

  int rank_;
  Groups to_;    ///< by receiving rank
  Groups from_;  ///< by sending rank
};

}  // namespace tessera
