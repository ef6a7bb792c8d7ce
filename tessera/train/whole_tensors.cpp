#include "tessera/train/whole_tensors.h"

#include <cstring>

#include "tessera/base/check.h"
#include "tessera/train/whole_buckets.h"

namespace tessera {
namespace {

// The box of a whole tensor that one rank holds, as numbers that travel. Vectors are matrices of
// one row.
struct Box {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  std::int64_t send = 0;  // whether the rank is the one that has it to give
};
constexpr std::int64_t kNumbers = sizeof(Box) / sizeof(std::int64_t);

// Of ranks with the same part of the model, the first has it to give.
Box box_of(const ShardedTensor& tensor, bool first) {
  const ShardPiece& piece = tensor.pieces.front();
  const bool matrix = piece.extent.rank() == 2;
  return {matrix ? piece.offset[0] : 0, piece.offset[-1], matrix ? piece.extent[0] : 1,
          piece.extent[-1], first && tensor.writer && piece.extent.numel() > 0};
}

// What every rank holds of a tensor.
std::vector<Box> boxes_of(Session& session, const ShardedTensor& tensor) {
  Communicator& world = session.context().mesh.world();
  Stream& stream = session.context().stream;
  const Tensor mine = session.memory().allocate(MemoryUse::data, DType::i64, {kNumbers});
  const Tensor all =
      session.memory().allocate(MemoryUse::data, DType::i64, {world.size(), kNumbers});
  const Box box = box_of(tensor, session.context().mesh.replicas().rank() == 0);
  std::vector<Box> boxes(static_cast<std::size_t>(world.size()));
  stream.api().copy_bytes(stream.native(), mine.view().raw(), &box, sizeof(box));
  world.all_gather(all, mine.view(), stream)->wait(stream);
  stream.api().copy_bytes(stream.native(), boxes.data(), all.view().raw(), all.view().bytes());
  stream.synchronize();
  return boxes;
}

void put(const View& whole, const Box& box, const View& part) {
  const std::size_t size = size_of(whole.dtype());
  const auto columns = static_cast<std::size_t>(whole.dim(-1));
  const std::size_t width = static_cast<std::size_t>(box.columns) * size;
  auto* to =
      static_cast<std::byte*>(whole.raw()) +
      (static_cast<std::size_t>(box.row) * columns + static_cast<std::size_t>(box.column)) * size;
  const auto* from = static_cast<const std::byte*>(part.raw());
  for (std::int64_t r = 0; r < box.rows; ++r, to += columns * size, from += width)
    std::memcpy(to, from, width);
}

}  // namespace

WholeTensors::WholeTensors(Session& session, const ParameterBlock& block) {
  if (session.context().mesh.world().size() == 1)
    look_into(session, block);
  else
    read_buckets(session, block,
                 [&](const Bucket& bucket, const View& whole) { gather(session, bucket, whole); });
}

void WholeTensors::look_into(Session& session, const ParameterBlock& block) {
  const ParameterBuffers& buffers = session.parameters();
  read_buckets(session, block, [&](const Bucket& bucket, const View& whole) {
    own_.push_back(downloaded(session.context(), whole));
    for (const std::size_t i : bucket.parameters)
      for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
        by_name_[tensor.name] = tensor.pieces.front().in(buffers.part(own_.back().view(), i));
  });
}

// Tensor by tensor, so that beside the whole ones rank 0 needs memory for one piece. The ranks have
// the same tensors in the same order: the pipeline's stages would not.
void WholeTensors::gather(Session& session, const Bucket& bucket, const View& bucket_memory) {
  Context& context = session.context();
  Communicator& world = context.mesh.world();
  check(context.mesh.pipeline().size() == 1, "pipeline stages hold different tensors");
  const ParameterBuffers& buffers = session.parameters();
  for (const std::size_t i : bucket.parameters)
    for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors()) {
      const std::vector<Box> boxes = boxes_of(session, tensor);
      const View mine = tensor.pieces.front().in(buffers.part(bucket_memory, i));
      if (world.rank() > 0) {
        if (boxes[static_cast<std::size_t>(world.rank())].send != 0)
          world.send(mine, 0, context.stream)->wait(context.stream);
        continue;
      }
      gathered_.push_back(Memory(Device{}).allocate(MemoryUse::data, mine.dtype(), tensor.global));
      const View whole = gathered_.back().view();
      by_name_[tensor.name] = whole;
      for (int r = 0; r < world.size(); ++r) {
        const Box& box = boxes[static_cast<std::size_t>(r)];
        if (box.send == 0) continue;
        Tensor received;
        View part = mine;
        if (r > 0) {
          received =
              session.memory().allocate(MemoryUse::data, mine.dtype(), {box.rows * box.columns});
          part = received.view();
          world.recv(part, r, context.stream)->wait(context.stream);
        }
        put(whole, box, downloaded(context, part).view());
      }
    }
}

}  // namespace tessera
