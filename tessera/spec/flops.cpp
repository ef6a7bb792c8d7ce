#include "tessera/spec/flops.h"

namespace tessera {
namespace {

// Two for each weight of a matrix.
double matrix_flops(const LinearSpec& spec) {
  double out = 0;
  for (const LinearPart& part : spec.parts) out += static_cast<double>(part.out);
  return 2 * out * static_cast<double>(spec.in);
}

double forward_flops(const AttentionLayerSpec& spec, std::int64_t seq) {
  const double core =
      4 * static_cast<double>(seq) * static_cast<double>(spec.heads * spec.head_size);
  return matrix_flops(qkv_linear(spec)) + matrix_flops(output_linear(spec)) + core;
}

double forward_flops(const LatentAttentionSpec& spec, std::int64_t seq) {
  const double core = 2 * static_cast<double>(seq) *
                      static_cast<double>(spec.heads * (spec.head_size() + spec.value_size));
  return matrix_flops(latent_linear(spec)) + matrix_flops(query_linear(spec)) +
         matrix_flops(key_value_linear(spec)) + matrix_flops(output_linear(spec)) + core;
}

double forward_flops(const MlpSpec& spec, std::int64_t) {
  return matrix_flops(up_linear(spec)) + matrix_flops(down_linear(spec));
}

double matrix_flops(const RouterLayerSpec& spec) {
  return 2 * static_cast<double>(spec.experts) * static_cast<double>(spec.hidden);
}

// The experts that a token goes to, what every token goes through, and the routers.
double forward_flops(const MoeSpec& spec, std::int64_t seq) {
  double sum = matrix_flops(spec.router) +
               static_cast<double>(spec.router.choice.topk) * forward_flops(spec.expert, seq);
  if (spec.shared) sum += forward_flops(*spec.shared, seq);
  if (spec.shared_gate) sum += matrix_flops(*spec.shared_gate);
  return sum;
}

}  // namespace

double flops_per_token(const ModelSpec& spec, std::int64_t seq) {
  const auto count = [&](const auto& sublayer) { return forward_flops(sublayer, seq); };
  const double head = 2 * static_cast<double>(spec.hidden) * static_cast<double>(spec.head.vocab);
  double forward = head;
  for (const LayerSpec* layer : all_layers(spec))
    forward += std::visit(count, layer->mixer) + std::visit(count, layer->feed_forward);
  for (const MtpSpec& depth : spec.mtp) forward += matrix_flops(projection_linear(depth)) + head;
  return 3 * forward;
}

}  // namespace tessera
