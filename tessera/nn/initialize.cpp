#include "tessera/nn/initialize.h"

namespace tessera {
namespace {

Shape without_first(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

// A box of more than two dimensions is initialised plane by plane: each plane is a box of the
// tensor with its first two dimensions merged.
void draw_normal(Context& context, const View& x, RngKey key, const Shape& global,
                 const Shape& offset, double std) {
  if (x.rank() <= 2)
    return context.kernels.random_normal(context.stream, x, key, global, offset, 0.0, std);
  Shape joined = without_first(global);
  joined[0] *= global[0];
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    Shape at = without_first(offset);
    at[0] += (offset[0] + i) * global[1];
    const View plane = x.slice(0, i, 1);
    draw_normal(
        context,
        {plane.raw(), plane.dtype(), without_first(plane.shape()), without_first(plane.strides())},
        key, joined, at, std);
  }
}

}  // namespace

void initialize_parameters(Context& context, const ParameterList& parameters, std::uint64_t seed) {
  for (const Parameter* parameter : parameters) {
    const InitSpec& init = parameter->init();
    if (init.kind != InitKind::normal) {
      context.kernels.fill(context.stream, parameter->value(),
                           init.kind == InitKind::ones ? 1.0 : 0.0);
      continue;
    }
    for (const ShardedTensor& tensor : parameter->tensors())
      for (const ShardPiece& piece : tensor.pieces)
        draw_normal(context, piece.in(parameter->value()),
                    rng_key(seed, RngPurpose::weights, tensor.name), tensor.global, piece.offset,
                    init.std);
  }
}

}  // namespace tessera
