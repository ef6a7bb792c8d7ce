// The state of a rank: its device's kernels and stream, its place in the mesh, its workspace and
// its trace. Nothing here changes between microbatches; nn/microbatch.h has what does.
#pragma once

#include "tessera/kernels/kernels.h"
#include "tessera/parallel/mesh.h"
#include "tessera/tensor/trace.h"

namespace tessera {

struct Context {
  Kernels& kernels;
  Stream& stream;
  const Mesh& mesh;
  Workspace workspace;     ///< of the stream, with the size that the layers requested
  Trace* trace = nullptr;  ///< where ranges are recorded; null: nowhere. A session always has one
};

}  // namespace tessera
