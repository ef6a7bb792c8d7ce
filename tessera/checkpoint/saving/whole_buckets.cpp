#include "tessera/checkpoint/saving/whole_buckets.h"

namespace tessera {
namespace {

// Calls visit(bucket, shard, whole): where this rank has all of a bucket, the shard is empty, and
// whole is in the block.
template <class Visit>
void visit_buckets(Session& session, const ParameterBlock& block, const Visit& visit) {
  const ParameterBuffers& buffers = session.parameters();
  for (const Bucket& bucket : buffers.buckets_of(block)) {
    if (!block.sharded && !block.own_only) {
      visit(bucket, View(), buffers.bucket_in(block, bucket));
      continue;
    }
    const Tensor whole =
        session.memory().allocate(MemoryUse::data, block.memory.dtype(), {bucket.range.length()});
    visit(bucket, buffers.shard_in(block, bucket), whole.view());
    session.context().stream.synchronize();  // before the memory goes
  }
}

}  // namespace

void read_buckets(Session& session, const ParameterBlock& block, const BucketVisitor& visit) {
  Stream& stream = session.context().stream;
  Communicator& sharding = session.context().mesh.sharding_group();
  session.data_parallel().wait_for_values();
  visit_buckets(session, block, [&](const Bucket& bucket, const View& shard, const View& whole) {
    if (shard) {
      // Shards of offloaded state lie on the host, where not every transport can read them.
      const View parts = whole.reshape({sharding.size(), shard.numel()});
      const View own = parts.slice(0, sharding.rank(), 1).reshape(shard.shape());
      session.context().kernels.copy(stream, own, shard);
      sharding.all_gather(parts, own, stream)->wait(stream);
    }
    visit(bucket, whole);
  });
}

void write_buckets(Session& session, const ParameterBlock& block, const BucketVisitor& visit) {
  Context& context = session.context();
  session.data_parallel().wait_for_values();
  visit_buckets(session, block, [&](const Bucket& bucket, const View& shard, const View& whole) {
    if (shard) context.kernels.fill(context.stream, whole, 0);
    visit(bucket, whole);
    if (shard)
      context.kernels.copy(
          context.stream, shard,
          whole.slice(0, shard.numel() * context.mesh.sharding_group().rank(), shard.numel()));
  });
}

}  // namespace tessera
