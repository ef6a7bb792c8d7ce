#include "tessera/nn/mlp.h"

namespace tessera {
namespace {

LinearSpec up_spec(const MlpSpec& spec) {
  std::vector<LinearPart> parts{{spec.name + ".up", spec.ffn}};
  if (spec.kind == MlpKind::swiglu) parts.insert(parts.begin(), {spec.name + ".gate", spec.ffn});
  return {parts, spec.hidden, spec.bias, spec.init_std};
}

LinearSpec down_spec(const MlpSpec& spec) {
  return {{{spec.name + ".down", spec.hidden}}, spec.ffn, spec.bias, spec.output_init_std};
}

}  // namespace

Mlp::Mlp(const MlpSpec& spec, const LayerSite& site)
    : spec_(spec),
      dtype_(site.dtype),
      ffn_(spec.ffn / site.tensor_size),
      up_(up_spec(spec), site),
      down_(down_spec(spec), site) {}

void Mlp::collect(ParameterList& parameters) {
  up_.collect(parameters);
  down_.collect(parameters);
}

Mlp::Saved Mlp::carve(SlotCarver& slot, Carver& scratch, const BatchShape& shape) const {
  const std::int64_t n = shape.rows();
  Saved saved;
  saved.pre = slot.until_input.take(dtype_, {n, pre_width()});
  if (spec_.kind == MlpKind::gelu || slot.split_backward)
    saved.act = slot.until_weight.take(dtype_, {n, ffn_});
  // SwiGLU's gradient takes the place of its input, unless the two gradients are computed apart.
  const bool in_place = spec_.kind == MlpKind::swiglu && !slot.split_backward && slot.gradients;
  saved.d_pre = in_place ? saved.pre : slot.gradient(scratch, dtype_, {n, pre_width()});
  if (slot.split_backward) saved.dy = slot.until_weight.take(dtype_, {n, spec_.hidden});
  return saved;
}

Mlp::Scratch Mlp::carve_scratch(Carver& scratch, const BatchShape& shape) const {
  if (spec_.kind == MlpKind::gelu) return {};
  return {scratch.take(dtype_, {shape.rows(), ffn_})};
}

void Mlp::forward(Context& context, View y, ConstView x, Saved& saved,
                  const Scratch& scratch) const {
  const View act = saved.act ? saved.act : scratch.act;
  saved.x = x;
  if (spec_.kind == MlpKind::gelu) {
    up_.forward_gelu(context, act, saved.pre, x);
  } else {
    up_.forward(context, saved.pre, x);
    context.kernels.swiglu_forward(context.stream, act, saved.pre);
  }
  down_.forward(context, y, act);
}

void Mlp::backward_input(Context& context, View dx, ConstView dy, Saved& saved,
                         const Scratch& scratch) {
  if (spec_.kind == MlpKind::gelu) {
    down_.backward_input_gelu(context, saved.d_pre, dy, saved.pre);
  } else {
    down_.backward_input(context, scratch.act, dy);
    context.kernels.swiglu_backward(context.stream, saved.d_pre, saved.act ? View() : scratch.act,
                                    scratch.act, saved.pre);
  }
  saved.act_seen = saved.act ? saved.act : scratch.act;
  up_.backward_input(context, dx, saved.d_pre);
  saved.dy_seen = dy;
  if (!saved.dy) return;
  context.kernels.copy(context.stream, saved.dy, dy);
  saved.dy_seen = saved.dy;
}

void Mlp::backward_weight(Context& context, Saved& saved) {
  down_.backward_weight(context, saved.dy_seen, saved.act_seen);
  up_.backward_weight(context, saved.d_pre, saved.x);
}

}  // namespace tessera
