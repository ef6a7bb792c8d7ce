#include "tessera/optim/kept_slices.h"

namespace tessera {
namespace {

// Ranks with the same slices divide the writing: each writes consecutive slices, of about the same
// total size.
void share_writing(std::vector<KeptSlice>& slices, const Communicator& copies) {
  std::int64_t all = 0;
  for (const KeptSlice& slice : slices)
    if (slice.writes) all += slice.piece.extent.numel();
  std::int64_t before = 0;
  for (KeptSlice& slice : slices) {
    if (!slice.writes) continue;
    slice.writes = before * copies.size() / all == copies.rank();
    before += slice.piece.extent.numel();
  }
}

}  // namespace

std::vector<KeptSlice> kept_slices(const Mesh& mesh, const ParameterBlock& block) {
  const ParameterBuffers& buffers = *block.buffers;
  const BucketLayout& layout = buffers.layout();
  const PlacementGroups& groups = mesh.groups(buffers.placement_class());
  const bool shards = block.sharded || block.own_only;
  std::vector<KeptSlice> slices;
  for (const Bucket& bucket : buffers.buckets_of(block)) {
    const Range kept = shards ? layout.shard(bucket, groups.sharding->rank()) : bucket.range;
    const std::int64_t begin = block.sharded ? layout.shard_offset(bucket) : kept.begin;
    for (const std::size_t i : bucket.parameters)
      for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
        for (ShardPiece piece : tensor.pieces) {
          piece.storage_offset += layout.offset(i);
          for (ShardPiece& part : pieces_in(piece, kept)) {
            part.storage_offset += begin - kept.begin;
            slices.push_back({tensor.name, tensor.global, part, tensor.primary});
          }
        }
  }
  share_writing(slices, shards ? *groups.replication : *groups.data_parallel);
  return slices;
}

}  // namespace tessera
