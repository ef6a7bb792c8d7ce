#include "tessera/checkpoint/saving/hf_weights.h"

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_write.h"
#include "tessera/checkpoint/saving/upcycling.h"
#include "tessera/checkpoint/saving/whole_buckets.h"
#include "tessera/checkpoint/saving/whole_tensors.h"

namespace tessera {

void load_hf_weights(Session& session, const HfFolder& folder, bool upcycle) {
  const Upcycling upcycling(session.options().model);
  const auto read = [&](const std::string& name, const Shape&, const ShardPiece& piece,
                        const View& part) {
    folder.read_box(name, piece.offset, piece.extent, part);
  };
  for (const ParameterBuffers& buffers : session.parameters().classes())
    write_buckets(session, buffers.values(), [&](const Bucket& bucket, const View& whole) {
      HostBlock host = downloaded(session.context(), whole);  // the gaps between tensors stay
      for (const std::size_t i : bucket.parameters)
        for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
          for (const ShardPiece& piece : tensor.pieces) {
            const View part = piece.in(buffers.part(host.view(), i));
            if (upcycle)
              upcycling.fill(tensor.name, tensor.global, piece, part, read);
            else
              read(tensor.name, tensor.global, piece, part);
          }
      host.upload();
    });
  session.adopt_values();
}

void write_hf_blocks(const fs::path& path, Session& session,
                     const std::vector<ParameterBlock>& blocks, std::string_view family,
                     const std::string& prefix) {
  const WholeTensors tensors(session, blocks);
  if (session.context().mesh.world().rank() > 0) return;
  std::vector<HfTensor> written = hf_tensors(session.options().model, family);
  std::erase_if(written, [&](const HfTensor& tensor) {
    return tensor.accumulator && !tensors.by_name().contains(tensor.parts.front().name);
  });
  const HfWriteOptions options{blocks.front().memory.dtype(), prefix};
  write_hf_tensors(
      path, written, [&](const std::string& name) { return tensors.by_name().at(name); }, options);
}

}  // namespace tessera
