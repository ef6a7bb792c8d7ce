#include "tessera/engine/host_block.h"

namespace tessera {

HostBlock::HostBlock(Context& context, const View& block) : context_(context), block_(block) {
  if (context.stream.device().kind != DeviceKind::cpu)
    copy_ = Memory(Device{}).allocate(MemoryUse::data, block.dtype(), block.shape());
  view_ = copy_ ? copy_.view() : block;
}

void HostBlock::copy(void* to, const void* from) {
  if (copy_) context_.stream.api().copy_bytes(context_.stream.native(), to, from, block_.bytes());
  context_.stream.synchronize();
}

void HostBlock::download() { copy(view_.raw(), block_.raw()); }
void HostBlock::upload() { copy(block_.raw(), view_.raw()); }

}  // namespace tessera
