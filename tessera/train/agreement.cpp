#include "tessera/train/agreement.h"

#include "tessera/train/host_block.h"

namespace tessera {

Agreement::Agreement(Session& session) : session_(session) {
  if (session.context().mesh.world().size() > 1)
    words_ = session.memory().allocate(MemoryUse::data, DType::f64, {kWords});
}

Agreement::Words Agreement::largest(const Words& own) {
  if (!words_) return own;
  Context& context = session_.context();
  HostBlock host(context, words_.view());
  std::copy(own.begin(), own.end(), host.view().data<double>());
  host.upload();
  context.mesh.world()
      .all_reduce(words_.view(), ReduceOp::max, context.stream)
      ->wait(context.stream);
  host.download();
  Words all{};
  std::copy_n(host.view().data<double>(), kWords, all.begin());
  return all;
}

}  // namespace tessera
