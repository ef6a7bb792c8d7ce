#include "tessera/checkpoint/saving/whole_tensors.h"

#include <fmt/format.h>

#include <sstream>

#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/saving/whole_buckets.h"
#include "tessera/launch/compare.h"

namespace tessera {
namespace {

// The box of a whole tensor that one rank has to give.
struct Box {
  Box() = default;
  Box(const ShardedTensor& tensor, const ShardPiece& piece)
      : name(tensor.name), global(tensor.global), offset(piece.offset), extent(piece.extent) {}

  std::string name;
  Shape global;
  Shape offset;
  Shape extent;
};

// Of ranks that hold the same parameters, the first has them to give.
bool gives(const ParameterAccess& access, const ParameterBuffers& buffers) {
  return access.context.mesh.groups(buffers.placement_class()).data_parallel->rank() == 0;
}

// Calls visit(box, part) for all that this rank gives of a bucket.
template <class Visit>
void visit_given(const ParameterAccess& access, const ParameterBuffers& buffers,
                 const Bucket& bucket, const View& memory, const Visit& visit) {
  if (!gives(access, buffers)) return;
  for (const std::size_t i : bucket.parameters)
    for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors()) {
      if (!tensor.primary) continue;
      for (const ShardPiece& piece : tensor.pieces)
        if (piece.extent.numel() > 0)
          visit(Box(tensor, piece), memory ? piece.in(buffers.part(memory, i)) : View());
    }
}

std::string dims_text(const Shape& shape) {
  return fmt::format("{}", fmt::join(shape.dims(), " "));
}

// The boxes as text that travels, a line each, in the order in which they are sent.
std::string described(const ParameterAccess& access, const ParameterBlock& block) {
  std::string text;
  for (const Bucket& bucket : block.buffers->buckets_of(block))
    visit_given(access, *block.buffers, bucket, {}, [&](const Box& box, const View&) {
      text += fmt::format("{} {} {} {} {}\n", box.name, box.global.rank(), dims_text(box.global),
                          dims_text(box.offset), dims_text(box.extent));
    });
  return text;
}

std::vector<Box> boxes_in(const std::string& text) {
  std::vector<Box> boxes;
  std::istringstream words(text);
  const auto read_shape = [&](int rank) {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(rank));
    for (std::int64_t& dim : dims) words >> dim;
    return Shape(dims);
  };
  Box box;
  for (int rank = 0; words >> box.name >> rank;) {
    box.global = read_shape(rank);
    box.offset = read_shape(rank);
    box.extent = read_shape(rank);
    boxes.push_back(box);
  }
  return boxes;
}

void put(View whole, const Box& box, const View& part) {
  for (int i = 0; i < whole.rank(); ++i) whole = whole.slice(i, box.offset[i], box.extent[i]);
  convert_into(whole, part);
}

}  // namespace

// Block by block: rank 0 has received all of one before ranks that sent some of it work on the next
// together with rank 0.
WholeTensors::WholeTensors(const ParameterAccess& access,
                           const std::vector<ParameterBlock>& blocks) {
  for (const ParameterBlock& block : blocks)
    if (access.context.mesh.world().size() == 1)
      look_into(access, block);
    else
      gather(access, block);
}

void WholeTensors::gather(const ParameterAccess& access, const ParameterBlock& block) {
  Communicator& world = access.context.mesh.world();
  const std::vector<std::string> boxes =
      gather_texts(world, described(access, block), access.context.stream.device());
  read_buckets(access, block, [&](const Bucket& bucket, const View& whole) {
    give(access, block, bucket, whole);
  });
  if (world.rank() > 0) return;
  for (int r = 1; r < world.size(); ++r)
    take(access, r, block.memory.dtype(), boxes[static_cast<std::size_t>(r)]);
}

void WholeTensors::look_into(const ParameterAccess& access, const ParameterBlock& block) {
  const ParameterBuffers& buffers = *block.buffers;
  read_buckets(access, block, [&](const Bucket& bucket, const View& whole) {
    own_.push_back(downloaded(access.context, whole));
    for (const std::size_t i : bucket.parameters)
      for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
        for (const ShardPiece& piece : tensor.pieces) {
          const View part = piece.in(buffers.part(own_.back().view(), i));
          if (part.is_contiguous() && part.shape() == tensor.global)
            by_name_[tensor.name] = part;
          else  // beside others of its storage, or in pieces
            put(this->whole(tensor.name, part.dtype(), tensor.global), Box(tensor, piece), part);
        }
  });
}

View WholeTensors::whole(const std::string& name, DType dtype, const Shape& shape) {
  Tensor& tensor = gathered_[name];
  if (!tensor) tensor = Memory(Device{}).allocate(MemoryUse::data, dtype, shape);
  by_name_[name] = tensor.view();
  return tensor.view();
}

// Rank 0 keeps what it has; the others send, one rank after the other.
void WholeTensors::give(const ParameterAccess& access, const ParameterBlock& block,
                        const Bucket& bucket, const View& memory) {
  Context& context = access.context;
  Communicator& world = context.mesh.world();
  visit_given(access, *block.buffers, bucket, memory, [&](const Box& box, const View& part) {
    Tensor packed;  // of a box that lies beside others of its storage
    if (!part.is_contiguous()) {
      packed = access.memory.allocate(MemoryUse::data, part.dtype(), box.extent);
      context.kernels.copy(context.stream, packed, part);
    }
    const View sent = packed ? packed.view() : part;
    if (world.rank() > 0)
      world.send(sent, 0, context.stream)->wait(context.stream);
    else
      put(whole(box.name, part.dtype(), box.global), box, downloaded(context, sent).view());
    if (packed) context.stream.synchronize();  // before the memory goes
  });
}

// Tensor by tensor, so that beside the whole ones rank 0 needs memory for one piece.
void WholeTensors::take(const ParameterAccess& access, int from, DType dtype,
                        const std::string& boxes) {
  Context& context = access.context;
  for (const Box& box : boxes_in(boxes)) {
    const Tensor received = access.memory.allocate(MemoryUse::data, dtype, box.extent);
    context.mesh.world().recv(received.view(), from, context.stream)->wait(context.stream);
    put(whole(box.name, dtype, box.global), box, downloaded(context, received.view()).view());
  }
}

}  // namespace tessera
