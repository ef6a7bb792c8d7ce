#include "tessera/checkpoint/saving/kept_slices.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Ranks that keep the same share the work: each writes a run of slices of about the same size.
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

std::vector<KeptSlice> kept_slices(Session& session, const ParameterBlock& block) {
  check(!block.own_only, "a block of which only a shard is valid cannot be saved");
  const ParameterBuffers& buffers = session.parameters();
  const BucketLayout& layout = buffers.layout();
  const Mesh& mesh = session.context().mesh;
  std::vector<KeptSlice> slices;
  for (const Bucket& bucket : buffers.buckets_of(block)) {
    const Range kept =
        block.sharded ? layout.shard(bucket, mesh.sharding_group().rank()) : bucket.range;
    const std::int64_t begin = block.sharded ? layout.shard_offset(bucket) : bucket.range.begin;
    for (const std::size_t i : bucket.parameters)
      for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
        for (ShardPiece piece : tensor.pieces) {
          piece.storage_offset += layout.offset(i);
          for (ShardPiece& part : pieces_in(piece, kept)) {
            part.storage_offset += begin - kept.begin;
            slices.push_back({tensor.name, tensor.global, part, tensor.writer});
          }
        }
  }
  share_writing(slices, block.sharded ? mesh.replication_group() : mesh.data_context());
  return slices;
}

}  // namespace tessera
