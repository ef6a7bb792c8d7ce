// A group of ranks and its collective and point-to-point operations. Calls take views, so dtype and
// element count are part of the argument.
//
// Rules. All ranks of a group make the same calls in the same order. A call returns a Work; the
// caller must not touch the memory of the call before it has waited on the Work. Destroying a Work
// without a wait blocks until the operation is done (MPI), so that memory is not freed while in
// use; during exception unwinding it makes the operation fail instead. NCCL's does not block.
// (Between ranks that are threads, the work is done inside the call: a collective or a recv blocks
// until the other ranks have made theirs, a send never blocks.) Sums are carried in f32 (f64 for
// f64) in rank order, so all transports that guarantee this give equal bits. NCCL does not: see
// nccl.h. If sends are not buffered (NCCL), operations after a send wait until the send is
// received: ranks that send to each other must use `grouped`. A group of one rank is an ordinary
// group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tessera/tensor/stream.h"
#include "tessera/tensor/view.h"

namespace tessera {

enum class ReduceOp { sum, max, avg };

/// A communication in flight. wait() orders a stream after it; on a GPU it never blocks the host.
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
  /// out = this rank's part of the reduction of in [size, out...]. `out` may be that part of `in`;
  /// the other parts of `in` are unchanged.
  virtual WorkHandle reduce_scatter(View out, ConstView in, ReduceOp, Stream&) = 0;
  /// x on all ranks = x on `root`.
  virtual WorkHandle broadcast(View x, int root, Stream&) = 0;
  /// Part r of in [size, ...] goes to rank r; part r of out comes from it.
  virtual WorkHandle all_to_all(View out, ConstView in, Stream&) = 0;
  /// The same with parts of different sizes: `in` holds in_rows[r] rows (of its first dimension)
  /// for rank r, in rank order; `out` receives out_rows[r] rows from rank r.
  virtual WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                                     Stream&) = 0;
  virtual WorkHandle send(ConstView x, int to, Stream&) = 0;
  virtual WorkHandle recv(View x, int from, Stream&) = 0;
  /// Whether a recv may be posted before its data is needed without delaying the calls of other
  /// groups. Other transports may buffer the message early, but copy it to its place only in the
  /// recv.
  virtual bool receives_ahead() const { return false; }
  /// Runs `calls` (sends before recvs) as one group: they start together, and none waits for
  /// another. Their Works may be waited on only after this has returned.
  virtual void grouped(const std::function<void()>& calls) { calls(); }
  virtual void barrier() = 0;
  /// A barrier without a timeout, for phases in which some ranks do long work alone, such as
  /// reading or writing large files. Only the death of a rank releases it early, with an error.
  virtual void barrier_without_timeout() { barrier(); }
  /// Whether calls on a stream that is being captured become part of the graph.
  virtual bool capturable() const { return false; }
  /// Runs `launch`, which launches captured calls on the stream, under the same timeout as other
  /// calls.
  virtual void launch_with_timeout(Stream&, const std::function<void()>& launch) { launch(); }

  /// Splits the group into new ones: ranks with the same colour form a group, ordered by key. All
  /// ranks must call it.
  virtual std::shared_ptr<Communicator> split(int colour, int key) = 0;
};

/// The group of one rank: every operation is the identity.
std::shared_ptr<Communicator> make_self_communicator();

}  // namespace tessera
