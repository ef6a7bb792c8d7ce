// A sublayer of a kind that the library does not know, in a block: its buffers are planned, its
// gradients flow, and its extra loss counts in value and gradient.
#include <gtest/gtest.h>

#include "tests/nn/block_gradients.h"

namespace tessera::test {
namespace {

constexpr double kCoefficient = 0.25;

// y = w x, channel by channel, with the loss x^2 / 2 summed over a sequence. On the host, in f64.
class Scaling final : public Sublayer {
 public:
  struct Saved final : Sublayer::Saved {
    ConstView x;
    View dy;  ///< [N, hidden], kept for the weight gradient
  };

  explicit Scaling(std::int64_t hidden)
      : weight_(replicated_parameter(DType::f64, "toy.weight", {hidden}, {InitKind::ones}, 0)) {}

  void collect(ParameterList& parameters) override { parameters.push_back(&weight_); }
  void collect_losses(ExtraLossList& losses) override { losses.push_back(&loss_); }
  std::unique_ptr<Sublayer::Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                                const BatchShape& shape) const override {
    auto saved = std::make_unique<Saved>();
    saved->dy = activations.gradient(scratch, DType::f64, {shape.rows(), weight_.shape()[0]});
    return saved;
  }

  void forward(Context&, const Microbatch&, View y, ConstView x, Sublayer::Saved& state,
               const LinearScratch&) const override {
    static_cast<Saved&>(state).x = x;
    for (std::int64_t i = 0; i < x.numel(); ++i)
      y.data<double>()[i] = weight(i) * x.data<double>()[i];
  }
  WorkHandle backward_input(Context&, const Microbatch&, View dx, ConstView dy,
                            Sublayer::Saved& state, const LinearScratch&) override {
    auto& saved = static_cast<Saved&>(state);
    const double scale = kCoefficient * loss_.grad_scale().data<double>()[0];
    for (std::int64_t i = 0; i < dy.numel(); ++i) {
      const double x = saved.x.data<double>()[i];
      saved.dy.data<double>()[i] = dy.data<double>()[i];
      dx.data<double>()[i] = weight(i) * dy.data<double>()[i] + scale * x;
      loss_.sum().data<double>()[0] += x * x / 2;
    }
    return std::make_shared<Work>();
  }
  void backward_weight(Context&, Sublayer::Saved& state, const LinearScratch&) override {
    auto& saved = static_cast<Saved&>(state);
    const Gradient gradient = weight_.grad();
    const std::int64_t n = weight_.shape()[0];
    for (std::int64_t c = 0; c < n && !gradient.accumulate; ++c)
      gradient.view.data<double>()[c] = 0;
    for (std::int64_t i = 0; i < saved.x.numel(); ++i)
      gradient.view.data<double>()[i % n] += saved.dy.data<double>()[i] * saved.x.data<double>()[i];
  }

 private:
  double weight(std::int64_t i) const {
    return weight_.value().data<double>()[i % weight_.shape()[0]];
  }

  Parameter weight_;
  ExtraLoss loss_{"toy loss", 0};
};

class ToyBlocks : public BlockGradients {
 protected:
  ToyBlocks()
      : block(small_layer(), layer, std::make_unique<Scaling>(hidden),
              std::make_unique<Scaling>(hidden)) {
    block.collect_losses(losses);
    for (ExtraLoss* loss : losses) loss->bind(sum, grad_scale.view());
  }

  void set_scale(double scale) { lab.write(grad_scale, {scale}); }

  Block block;
  ExtraLossList losses;
  Tensor sum = tensor({1}, {0});
  Tensor grad_scale = tensor({1}, {0});
};

TEST_P(ToyBlocks, GradientsWithoutTheExtraLoss) {
  if (GetParam().kind != DeviceKind::cpu) GTEST_SKIP() << "it computes on the host";
  set_scale(0);
  check(block);
}

// The loss of both sublayers, whose inputs are norms of the stream: the gradient of the whole is
// that of the output and coefficient x scale x loss.
TEST_P(ToyBlocks, GradientsWithTheExtraLoss) {
  if (GetParam().kind != DeviceKind::cpu) GTEST_SKIP() << "it computes on the host";
  constexpr double kScale = 0.5;
  set_scale(kScale);
  for (const bool split : {false, true}) {
    use(block, split);
    const auto loss = [&](const Inputs& inputs) {
      lab.write(sum, {0});
      backward(inputs, Values(static_cast<std::size_t>(shape.rows() * hidden), 0));
      return lab.read(sum)[0];
    };
    check_gradients({random_inputs(),
                     [&](const Inputs& inputs) {
                       Values all = forward(inputs);
                       all.push_back(kCoefficient * kScale * loss(inputs));
                       return all;
                     },
                     [&](const Inputs& inputs, const Values& dy) {
                       // The loss's own factor in the gradient is 1 where it belongs to the model.
                       set_scale(kScale * dy.back());
                       Inputs gradients = backward(inputs, Values(dy.begin(), dy.end() - 1));
                       set_scale(kScale);
                       return gradients;
                     }});
  }
}

TEST_P(ToyBlocks, ReportTheLossOncePerMicrobatch) {
  if (GetParam().kind != DeviceKind::cpu) GTEST_SKIP() << "it computes on the host";
  use(block, false);
  const Inputs inputs = random_inputs();
  const Values dy = random({shape.rows(), hidden});
  backward(inputs, dy);
  const double once = lab.read(sum)[0];
  EXPECT_GT(once, 0);
  forward(inputs);  // as a recompute does
  EXPECT_EQ(lab.read(sum)[0], once);
  backward(inputs, dy);
  EXPECT_DOUBLE_EQ(lab.read(sum)[0], 2 * once);
}

TESSERA_GRADIENT_SUITE(ToyBlocks);

}  // namespace
}  // namespace tessera::test
