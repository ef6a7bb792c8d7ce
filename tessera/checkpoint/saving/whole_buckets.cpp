#include "tessera/checkpoint/saving/whole_buckets.h"

namespace tessera {
namespace {

// Calls visit(bucket, shard, whole): where this rank has all of a bucket, the shard is empty, and
// whole is in the block.
template <class Visit>
void visit_buckets(const ParameterAccess& access, const ParameterBlock& block, const Visit& visit) {
  const ParameterBuffers& buffers = *block.buffers;
  for (const Bucket& bucket : buffers.buckets_of(block)) {
    if (!block.sharded && !block.own_only) {
      visit(bucket, View(), buffers.bucket_in(block, bucket));
      continue;
    }
    const Tensor whole =
        access.memory.allocate(MemoryUse::data, block.memory.dtype(), {bucket.range.length()});
    visit(bucket, buffers.shard_in(block, bucket), whole.view());
    access.context.stream.synchronize();  // before the memory goes
  }
}

Communicator& sharding_group(const ParameterAccess& access, const ParameterBlock& block) {
  return *access.context.mesh.groups(block.buffers->placement_class()).sharding;
}

}  // namespace

void read_buckets(const ParameterAccess& access, const ParameterBlock& block,
                  const BucketVisitor& visit) {
  Stream& stream = access.context.stream;
  Communicator& sharding = sharding_group(access, block);
  access.parameters.wait_for_param_gather();
  visit_buckets(access, block, [&](const Bucket& bucket, const View& shard, const View& whole) {
    if (shard) {
      // Shards of offloaded state lie on the host, where not every transport can read them.
      const View parts = whole.reshape({sharding.size(), shard.numel()});
      const View own = parts.slice(0, sharding.rank(), 1).reshape(shard.shape());
      access.context.kernels.copy(stream, own, shard);
      sharding.all_gather(parts, own, stream)->wait(stream);
    }
    visit(bucket, whole);
  });
}

void write_buckets(const ParameterAccess& access, const ParameterBlock& block,
                   const BucketVisitor& visit) {
  Context& context = access.context;
  const int rank = sharding_group(access, block).rank();
  access.parameters.wait_for_param_gather();
  visit_buckets(access, block, [&](const Bucket& bucket, const View& shard, const View& whole) {
    if (shard) context.kernels.fill(context.stream, whole, 0);
    visit(bucket, whole);
    if (shard)
      context.kernels.copy(context.stream, shard,
                           whole.slice(0, shard.numel() * rank, shard.numel()));
  });
}

}  // namespace tessera
