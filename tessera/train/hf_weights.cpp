#include "tessera/train/hf_weights.h"

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf_write.h"
#include "tessera/train/host_block.h"

namespace tessera {

void load_hf_weights(Session& session, const HfFolder& folder) {
  const ParameterBuffers& buffers = session.parameters();
  HostBlock host = downloaded(session.context(), buffers.values());
  for (std::size_t i = 0; i < buffers.parameters().size(); ++i)
    for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
      for (const ShardPiece& piece : tensor.pieces)
        folder.read_box(tensor.name, piece.offset, piece.extent,
                        piece.in(buffers.part(host.view(), i)));
  host.upload();
  if (session.options().training) session.optimizer().adopt_values(session.context());
}

void write_hf_block(const fs::path& path, Session& session, const View& block,
                    std::string_view family, const std::string& prefix) {
  check(session.context().mesh.world().size() == 1, "Hugging Face files are written by one rank");
  const HostBlock host = downloaded(session.context(), block);
  std::map<std::string, ConstView> tensors;
  const ParameterBuffers& buffers = session.parameters();
  for (std::size_t i = 0; i < buffers.parameters().size(); ++i)
    for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
      tensors[tensor.name] = tensor.pieces.front().in(buffers.part(host.view(), i));
  const HfWriteOptions options{block.dtype(), prefix};
  write_hf_tensors(
      path, session.options().model, family,
      [&](const std::string& name) { return tensors.at(name); }, options);
}

}  // namespace tessera
