// A group of ranks and what they can do together. Calls take views, so dtype and count travel with
// the data.
//
// Rules. All ranks of a group make the same calls in the same order. A call returns a Work; memory
// it was given is not touched before the Work was waited on. A Work that is dropped without may
// wait by itself, so that memory is not freed under it. (Ranks as threads work inside the call: a
// collective and a recv block until the others have come, a send never blocks.) Sums are carried in
// f32 (f64 for f64) in rank order, so every transport that promises it gives equal bits. Where
// sends are not buffered (NCCL), what a rank asks for after a send waits until the send is
// received: ranks that send to each other do it in `grouped`. A group of one is an ordinary group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tessera/tensor/stream.h"
#include "tessera/tensor/view.h"

namespace tessera {

enum class ReduceOp { sum, max, avg };

/// A communication under way. Waiting orders a stream after it and never blocks the host on a GPU.
class Work {
 public:
  virtual ~Work() = default;
  virtual void wait(Stream&) {}
};
using WorkHandle = std::shared_ptr<Work>;

class Communicator {
 public:
  /// Rows for each rank of the group.
  using Rows = std::span<const std::int64_t>;

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// x = the reduction of x over the ranks.
  virtual WorkHandle all_reduce(View x, ReduceOp, Stream&) = 0;
  /// out [size, in...] = every rank's in, in rank order. `in` may be this rank's part of `out`.
  virtual WorkHandle all_gather(View out, ConstView in, Stream&) = 0;
  /// out = this rank's part of the reduction of in [size, out...]. It may be that part of `in`, of
  /// which the rest stays.
  virtual WorkHandle reduce_scatter(View out, ConstView in, ReduceOp, Stream&) = 0;
  virtual WorkHandle broadcast(View x, int root, Stream&) = 0;
  /// Part r of in [size, ...] goes to rank r; part r of out comes from it.
  virtual WorkHandle all_to_all(View out, ConstView in, Stream&) = 0;
  /// The same with parts of unequal size: in holds in_rows[r] rows (of its first dimension) for
  /// rank r, one rank's after the other's; out gets out_rows[r] rows from it.
  virtual WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                                     Stream&) = 0;
  virtual WorkHandle send(ConstView x, int to, Stream&) = 0;
  virtual WorkHandle recv(View x, int from, Stream&) = 0;
  /// Whether a recv may be asked for before it is needed: no other group's calls wait for it. (Of
  /// others the message comes near all the same, but not into its place.)
  virtual bool receives_ahead() const { return false; }
  /// Runs `calls`, sends before recvs, which then go off together: none of them waits for another.
  /// Their Works are waited on after this has returned.
  virtual void grouped(const std::function<void()>& calls) { calls(); }
  virtual void barrier() = 0;
  /// A barrier without a time limit, where some ranks may have long work to do alone before they
  /// come: to read or write large files. What ends a rank still ends the wait for it.
  virtual void patient_barrier() { barrier(); }
  /// Whether calls on a stream that is being captured become part of the graph.
  virtual bool capturable() const { return false; }
  /// Runs `launch`, which puts captured calls on the stream, and watches over them as over others.
  virtual void watched(Stream&, const std::function<void()>& launch) { launch(); }

  /// New groups of the ranks that give the same colour, ordered by key. All ranks call it.
  virtual std::shared_ptr<Communicator> split(int colour, int key) = 0;
};

/// The group of one rank: every operation is the identity.
std::shared_ptr<Communicator> make_self_communicator();

}  // namespace tessera
