// What belongs to a rank: its device's kernels and stream, its place in the mesh, its scratch
// memory, its trace. Nothing here changes between microbatches; what does is in nn/microbatch.h.
#pragma once

#include "tessera/kernels/kernels.h"
#include "tessera/parallel/mesh.h"
#include "tessera/tensor/trace.h"

namespace tessera {

struct Context {
  Kernels& kernels;
  Stream& stream;
  const Mesh& mesh;
  Workspace workspace;     ///< of the stream; sized by what the layers asked for
  Trace* trace = nullptr;  ///< where ranges go; null: nowhere. A session always has one
};

}  // namespace tessera
