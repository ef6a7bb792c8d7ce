// A step that is not finite for no fault of a loss scale stops the run. A GPU finds out steps
// later; neither the weights nor a checkpoint show it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "tests/train/session_run.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using Change = std::function<void(const std::string& name, const View& weight)>;

void change_weights(Session& session, const Change& change) {
  for (const Parameter* parameter : session.parameters().parameters()) {
    HostBlock host = downloaded(session.context(), parameter->value());
    change(parameter->name(), host.view());
    host.upload();
  }
}

class Stopped : public testing::TestWithParam<Device> {
 protected:
  // Changes the weights, and expects the first step to stop the run: nothing updated or saved.
  static void expect_stopped(const Change& change, const std::vector<std::string>& messages) {
    const test::TempFolder temp;
    Options options = test::run_options(temp / "run", GetParam());
    options.train.train_iters = options.train.save_interval = 5;
    options.optimizer.clip_grad = 1.0;
    Trainer trainer = test::trainer_of(options);
    change_weights(trainer.session(), change);
    const test::Bits before = test::bits_of(trainer.session());
    try {
      trainer.run();
      ADD_FAILURE() << "the run went on";
    } catch (const Error& error) {
      const std::string_view text = error.what();
      EXPECT_TRUE(std::any_of(messages.begin(), messages.end(), [&](const std::string& message) {
        return text.find(message) != std::string_view::npos;
      })) << text;
    }
    test::expect_equal_bits(test::bits_of(trainer.session()), before);
    for (const auto& entry : fs::directory_iterator(temp / "run"))
      EXPECT_EQ(entry.path().filename().string().rfind("iter_", 0), std::string::npos)
          << entry.path();
  }
};

TEST_P(Stopped, ByALossThatIsNotFinite) {
  expect_stopped(
      [](const std::string& name, const View& weight) {
        if (name == "final_norm.weight") weight.data<float>()[0] = std::nanf("");
      },
      {"iteration 1 has loss nan"});
}

// The loss alone would not show it: huge values of attention meet an output projection of zero, so
// forward never sees them, and its gradient is their product with what comes from above.
TEST_P(Stopped, ByInfiniteGradientsOfAFiniteLoss) {
  expect_stopped(
      [](const std::string& name, const View& weight) {
        float* data = weight.data<float>();
        if (name == "final_norm.weight") std::fill_n(data, weight.numel(), 1e4f);
        if (name == "layers.0.attention.q.weight") data[weight.numel() - 1] = 2e37f;
        if (name == "layers.0.attention.out.weight") std::fill_n(data, weight.numel(), 0.0f);
      },
      {"and gradient norm inf", "and gradient norm nan"});
}

// All steps are put on the device before anybody looks at the first.
TEST_P(Stopped, StepsBehindTheFaultTouchNothing) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(to_string(dtype));
    Session session(test::wide_session("llama", GetParam(), dtype),
                    {0, 1, 2, make_self_communicator()});
    const double rate = 1e-2;
    session.optimizer().set_rates(session.context(), std::span(&rate, 1));
    test::RandomBatches batches(session.options());
    HostBatch batch;
    Steps steps(session, LossAverage::per_microbatch);
    const auto submit = [&](float weight) {
      steps.submit([&]() -> const HostBatch& {
        batch = batches.next();
        batch.loss_mask[0] = weight;
        return batch;
      });
    };
    for (int i = 0; i < 4; ++i) submit(1.0f);
    const test::Bits before = test::bits_of(session);
    submit(std::nanf(""));
    for (int i = 0; i < 3; ++i) submit(1.0f);
    test::expect_equal_bits(test::bits_of(session), before);
    const std::vector<StepRecord> records = steps.collect();
    ASSERT_EQ(records.size(), 8U);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(records[i].failed, i < 4 ? 0 : 1) << i;
      EXPECT_EQ(records[i].step, std::min<std::int64_t>(static_cast<std::int64_t>(i) + 1, 4)) << i;
    }
    EXPECT_TRUE(std::isnan(records[4].loss));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Stopped, testing::ValuesIn(test::devices()),
                         [](const auto& test) { return test::device_name(test.param); });

}  // namespace
}  // namespace tessera
