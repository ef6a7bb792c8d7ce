#include "tessera/nn/lm_head_layout.h"

#include "tessera/nn/parallel_2d/lm_head_layout_2d.h"

namespace tessera {
namespace {

// 1-D: every rank has all channels of its shard of the vocabulary.
class LmHeadLayout1d final : public LmHeadLayout {
 public:
  explicit LmHeadLayout1d(const LayerContext& layer) : dtype_(layer.dtype), rows_(layer) {}

  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, const Shape& weight,
                       bool) const override {
    if (rows_.local_rows(shape) == shape.rows()) return {};
    return {scratch.take(dtype_, {1, shape.rows(), weight[1]}), {}, {}};
  }
  View gather_input(Context& context, View x, const Scratch& scratch) const override {
    rows_.gather(context, scratch.x, x)->wait(context.stream);
    return rows_.partial_sum(scratch.x, as_part(x));
  }
  ConstView gather_weight(Context&, const Parameter& weight, const Scratch&) const override {
    return as_part(weight.value());
  }
  PartialWeightGradients start_gradient(Context&, Parameter& weight,
                                        const Scratch&) const override {
    const Gradient gradient = weight.grad();
    return {as_part(gradient.view), gradient.accumulate ? 0 : -1};
  }
  void sum_input_gradient(Context& context, View dx, View parts) const override {
    rows_.sum(context, dx, parts.rows())->wait(context.stream);
  }
  void sum_weight_gradient(Context&, Parameter&, const PartialWeightGradients&) const override {}
  Communicator& vocabulary_group(const Mesh& mesh) const override { return mesh.tensor(); }

 private:
  static View as_part(const View& matrix) {
    return matrix.reshape({1, matrix.dim(0), matrix.dim(1)});
  }

  DType dtype_;
  RowLayout rows_;
};

}  // namespace

std::unique_ptr<LmHeadLayout> make_lm_head_layout(const LayerContext& layer) {
  if (layer.tensor_2d > 0) return std::make_unique<LmHeadLayout2d>(layer);
  return std::make_unique<LmHeadLayout1d>(layer);
}

}  // namespace tessera
