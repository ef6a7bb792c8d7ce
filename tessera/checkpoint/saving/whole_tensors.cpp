#include "tessera/checkpoint/saving/whole_tensors.h"

#include <fmt/core.h>

#include <cstring>
#include <sstream>

#include "tessera/checkpoint/saving/whole_buckets.h"
#include "tessera/launch/compare.h"

namespace tessera {
namespace {

// The box of a whole tensor that one rank has to give. Vectors are matrices of one row.
struct Box {
  std::string name;
  Shape global;
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
};

// Of ranks with the same part of the model, the first has it to give.
bool gives(Session& session, const ShardedTensor& tensor) {
  return session.context().mesh.data_context().rank() == 0 && tensor.writer &&
         tensor.pieces.front().extent.numel() > 0;
}

Box box_of(const ShardedTensor& tensor) {
  const ShardPiece& piece = tensor.pieces.front();
  const bool matrix = piece.extent.rank() == 2;
  return {tensor.name,
          tensor.global,
          matrix ? piece.offset[0] : 0,
          piece.offset[-1],
          matrix ? piece.extent[0] : 1,
          piece.extent[-1]};
}

// Calls visit(tensor, part) for all that this rank gives of a bucket.
template <class Visit>
void visit_given(Session& session, const Bucket& bucket, const View& memory, const Visit& visit) {
  const ParameterBuffers& buffers = session.parameters();
  for (const std::size_t i : bucket.parameters)
    for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
      if (gives(session, tensor))
        visit(tensor, memory ? tensor.pieces.front().in(buffers.part(memory, i)) : View());
}

// The boxes as text that travels, a line each, in the order in which they are sent.
std::string described(Session& session, const ParameterBlock& block) {
  std::string text;
  for (const Bucket& bucket : session.parameters().buckets_of(block))
    visit_given(session, bucket, {}, [&](const ShardedTensor& tensor, const View&) {
      const Box box = box_of(tensor);
      text += fmt::format("{} {} {} {} {} {} {} {}\n", box.name, box.global.rank(),
                          box.global.rank() == 2 ? box.global[0] : 1, box.global[-1], box.row,
                          box.column, box.rows, box.columns);
    });
  return text;
}

std::vector<Box> boxes_in(const std::string& text) {
  std::vector<Box> boxes;
  std::istringstream lines(text);
  Box box;
  for (std::int64_t rank = 0, rows = 0, columns = 0; lines >> box.name >> rank >> rows >> columns >>
                                                     box.row >> box.column >> box.rows >>
                                                     box.columns;) {
    box.global = rank == 2 ? Shape{rows, columns} : Shape{columns};
    boxes.push_back(box);
  }
  return boxes;
}

void put(const View& whole, const Box& box, const View& part) {
  const std::size_t size = element_size(whole.dtype());
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
  Communicator& world = session.context().mesh.world();
  if (world.size() == 1) {
    look_into(session, block);
    return;
  }
  const std::vector<std::string> boxes =
      gather_texts(world, described(session, block), session.options().device);
  read_buckets(session, block,
               [&](const Bucket& bucket, const View& whole) { give(session, bucket, whole); });
  if (world.rank() > 0) return;
  for (int r = 1; r < world.size(); ++r)
    take(session, r, block.memory.dtype(), boxes[static_cast<std::size_t>(r)]);
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

View WholeTensors::whole(const std::string& name, DType dtype, const Shape& shape) {
  Tensor& tensor = gathered_[name];
  if (!tensor) tensor = Memory(Device{}).allocate(MemoryUse::data, dtype, shape);
  by_name_[name] = tensor.view();
  return tensor.view();
}

// Rank 0 keeps what it has; the others send, one rank after the other.
void WholeTensors::give(Session& session, const Bucket& bucket, const View& memory) {
  Context& context = session.context();
  Communicator& world = context.mesh.world();
  visit_given(session, bucket, memory, [&](const ShardedTensor& tensor, const View& part) {
    if (world.rank() > 0)
      world.send(part, 0, context.stream)->wait(context.stream);
    else
      put(whole(tensor.name, part.dtype(), tensor.global), box_of(tensor),
          downloaded(context, part).view());
  });
}

// Tensor by tensor, so that beside the whole ones rank 0 needs memory for one piece.
void WholeTensors::take(Session& session, int from, DType dtype, const std::string& boxes) {
  Context& context = session.context();
  for (const Box& box : boxes_in(boxes)) {
    const Tensor received =
        session.memory().allocate(MemoryUse::data, dtype, {box.rows * box.columns});
    context.mesh.world().recv(received.view(), from, context.stream)->wait(context.stream);
    put(whole(box.name, dtype, box.global), box, downloaded(context, received.view()).view());
  }
}

}  // namespace tessera
