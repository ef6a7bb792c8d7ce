#include "tessera/nn/initialize.h"

namespace tessera {

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
        context.kernels.random_normal(context.stream, piece.in(parameter->value()),
                                      rng_key(seed, RngPurpose::weights, tensor.name),
                                      tensor.global, piece.offset, 0.0, init.std);
  }
}

}  // namespace tessera
