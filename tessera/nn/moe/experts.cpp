#include "tessera/nn/moe/experts.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr Placement kPlacement{.placement_class = PlacementClass::expert};

// The part of the experts' width that this rank has.
Range local_width(const MoeSpec& spec, const LayerContext& layer) {
  check(spec.expert.ffn % layer.expert_tensor_size == 0,
        "{}: {} expert-tensor-parallel ranks cannot share a width of {} evenly", spec.name,
        layer.expert_tensor_size, spec.expert.ffn);
  return balanced_range(spec.expert.ffn, layer.expert_tensor_size, layer.expert_tensor_rank);
}

// Gate and up of one expert lie one after the other, then those of the next expert.
Parameter up_weight(const MoeSpec& spec, const LayerContext& layer) {
  const LinearSpec linear = up_linear(spec.expert);
  const std::int64_t first = layer.first_expert(spec.router.experts);
  const std::int64_t count = layer.local_experts(spec.router.experts);
  const Range width = local_width(spec, layer);
  const std::int64_t parts = std::ssize(linear.parts), rows = parts * width.length();
  std::vector<ShardedTensor> tensors;
  for (const LinearPart& part : linear.parts) {
    const ShardPiece piece{{first, width.begin, 0},
                           {count, width.length(), linear.in},
                           std::ssize(tensors) * width.length() * linear.in,
                           {rows * linear.in, linear.in, 1}};
    tensors.push_back({part.name + ".weight",
                       {spec.router.experts, part.out, linear.in},
                       {piece},
                       true,
                       kPlacement});
  }
  return {layer.dtype,
          {count, rows, linear.in},
          std::move(tensors),
          {InitKind::normal, linear.init_std}};
}

Parameter down_weight(const MoeSpec& spec, const LayerContext& layer) {
  const LinearSpec linear = down_linear(spec.expert);
  const LinearPart& part = linear.parts.front();
  const Range width = local_width(spec, layer);
  const Shape local{layer.local_experts(spec.router.experts), part.out, width.length()};
  const ShardPiece piece{{layer.first_expert(spec.router.experts), 0, width.begin},
                         local,
                         0,
                         {part.out * width.length(), width.length(), 1}};
  return {layer.dtype,
          local,
          {{part.name + ".weight",
            {spec.router.experts, part.out, linear.in},
            {piece},
            true,
            kPlacement}},
          {InitKind::normal, linear.init_std}};
}

// As the weight: gate and up of one expert, then those of the next.
std::optional<Parameter> up_bias(const MoeSpec& spec, const LayerContext& layer) {
  if (!spec.expert.bias) return std::nullopt;
  const LinearSpec linear = up_linear(spec.expert);
  const std::int64_t first = layer.first_expert(spec.router.experts);
  const std::int64_t count = layer.local_experts(spec.router.experts);
  const Range width = local_width(spec, layer);
  const std::int64_t rows = std::ssize(linear.parts) * width.length();
  std::vector<ShardedTensor> tensors;
  for (const LinearPart& part : linear.parts) {
    const ShardPiece piece{{first, width.begin},
                           {count, width.length()},
                           std::ssize(tensors) * width.length(),
                           {rows, 1}};
    tensors.push_back(
        {part.name + ".bias", {spec.router.experts, part.out}, {piece}, true, kPlacement});
  }
  return Parameter(layer.dtype, {count, rows}, std::move(tensors), {});
}

// All ranks that share the experts' matrices hold it, and compute the same gradient.
std::optional<Parameter> down_bias(const MoeSpec& spec, const LayerContext& layer) {
  if (!spec.expert.bias) return std::nullopt;
  const LinearPart part = down_linear(spec.expert).parts.front();
  const Shape local{layer.local_experts(spec.router.experts), part.out};
  const ShardPiece piece{{layer.first_expert(spec.router.experts), 0}, local, 0, {part.out, 1}};
  return Parameter(layer.dtype, local,
                   {{part.name + ".bias",
                     {spec.router.experts, part.out},
                     {piece},
                     layer.expert_tensor_rank == 0,
                     kPlacement}},
                   {});
}

Experts::Saved first_rows_of(const Experts::Saved& planned, std::int64_t rows) {
  Experts::Saved saved = planned;
  for (View* view : {&saved.x, &saved.pre, &saved.act, &saved.dy, &saved.dpre, &saved.dweight,
                     &saved.work, &saved.weighted})
    if (*view) *view = view->slice(0, 0, rows);
  return saved;
}

}  // namespace

Experts::Experts(const MoeSpec& spec, const LayerContext& layer)
    : spec_(spec.expert),
      weighting_(spec.weighting),
      products_(layer.grouped_gemm),
      dtype_(layer.dtype),
      ffn_(local_width(spec, layer).length()),
      up_(up_weight(spec, layer)),
      down_(down_weight(spec, layer)),
      first_shard_(layer.expert_tensor_rank == 0),
      up_bias_(up_bias(spec, layer)),
      down_bias_(down_bias(spec, layer)) {
  check(!spec_.bias || weighting_ == ExpertWeighting::output,
        "{}: experts whose inputs are weighted have no biases", spec.name);
}

void Experts::collect(ParameterList& parameters) {
  parameters.push_back(&up_);
  if (up_bias_) parameters.push_back(&*up_bias_);
  parameters.push_back(&down_);
  if (down_bias_) parameters.push_back(&*down_bias_);
}

Experts::Saved Experts::plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                     std::int64_t rows) const {
  Saved saved;
  saved.x = activations.until_weight.take(dtype_, {rows, spec_.hidden});
  saved.pre = activations.until_input.take(dtype_, {rows, pre_width()});
  if (!spec_.gated || activations.split_backward)
    saved.act = activations.until_weight.take(dtype_, {rows, ffn_});
  saved.dy = activations.gradient(scratch, dtype_, {rows, spec_.hidden});
  saved.dpre = activations.gradient(scratch, dtype_, {rows, pre_width()});
  if (activations.gradients) saved.dweight = scratch.take(accumulator_type(dtype_), {rows});
  if (spec_.gated) saved.work = scratch.take(dtype_, {rows, ffn_});
  if (weighting_ == ExpertWeighting::input)
    saved.weighted = scratch.take(dtype_, {rows, pre_width()});
  return saved;
}

void Experts::activate(Context& context, View act, const Rows& rows, const Saved& saved) const {
  Kernels& kernels = context.kernels;
  Stream& stream = context.stream;
  if (weighting_ == ExpertWeighting::output)
    return kernels.expert_activation_forward(stream, act, saved.pre, rows.weight, spec_.activation);
  kernels.scale_rows(stream, saved.weighted, saved.pre, rows.weight);
  if (spec_.gated)
    kernels.gated_activation_forward(stream, act, saved.weighted, spec_.activation);
  else
    kernels.activation_forward(stream, act, saved.weighted, spec_.activation.kind);
}

void Experts::activate_backward(Context& context, View dact, View act, const Rows& rows,
                                const Saved& saved) const {
  Kernels& kernels = context.kernels;
  Stream& stream = context.stream;
  if (weighting_ == ExpertWeighting::output)
    return kernels.expert_activation_backward(stream, saved.dpre, act, saved.dweight, dact,
                                              saved.pre, rows.weight, spec_.activation);
  kernels.scale_rows(stream, saved.weighted, saved.pre, rows.weight);
  if (spec_.gated)
    kernels.gated_activation_backward(stream, saved.weighted, act, dact, saved.weighted,
                                      spec_.activation);
  else
    kernels.activation_backward(stream, saved.weighted, dact, saved.weighted,
                                spec_.activation.kind);
  kernels.row_dot(stream, saved.dweight, saved.weighted, saved.pre);
  kernels.scale_rows(stream, saved.dpre, saved.weighted, rows.weight);
}

void Experts::forward(Context& context, View y, const Rows& rows, const Saved& planned) const {
  Kernels& kernels = context.kernels;
  const Saved saved = first_rows_of(planned, rows.count());
  const View act = saved.act ? saved.act : saved.work;
  products_.multiply(context, saved.pre, saved.x, ConstView(up_.value()), rows.offsets, true);
  if (up_bias_)
    kernels.add_expert_bias(context.stream, saved.pre, up_bias_->value(), rows.offsets, {});
  activate(context, act, rows, saved);
  products_.multiply(context, y, act, ConstView(down_.value()), rows.offsets, true);
  if (adds_output_bias())
    kernels.add_expert_bias(context.stream, y, down_bias_->value(), rows.offsets, rows.weight);
}

void Experts::backward_input(Context& context, View dx, const Rows& rows, Saved& planned) const {
  const Saved saved = first_rows_of(planned, rows.count());
  const View dact = spec_.gated ? saved.work : saved.dpre;
  products_.multiply(context, dact, saved.dy, ConstView(down_.value()), rows.offsets, false);
  activate_backward(context, dact, saved.act ? View() : saved.work, rows, saved);
  if (adds_output_bias())
    context.kernels.expert_bias_dot(context.stream, saved.dweight, saved.dy, down_bias_->value(),
                                    rows.offsets);
  planned.act_seen = saved.act ? saved.act : saved.work;
  products_.multiply(context, dx, saved.dpre, ConstView(up_.value()), rows.offsets, false);
}

void Experts::backward_weight(Context& context, const Rows& rows, const Saved& planned) {
  const Saved saved = first_rows_of(planned, rows.count());
  const auto add = [&](Parameter& parameter, ConstView dy, ConstView x) {
    if (!parameter.trained()) return;
    products_.weight_gradient(context, parameter.grad(), dy, x, rows.offsets);
  };
  const auto add_bias = [&](std::optional<Parameter>& bias, ConstView dy, ConstView weight) {
    if (!bias || !bias->trained()) return;
    const Gradient gradient = bias->grad();
    context.kernels.expert_bias_gradient(context.stream, gradient.view, dy, rows.offsets, weight,
                                         gradient.accumulate);
  };
  add(down_, saved.dy, planned.act_seen);
  add(up_, saved.dpre, saved.x);
  add_bias(down_bias_, saved.dy, rows.weight);
  add_bias(up_bias_, saved.dpre, {});
}

}  // namespace tessera
