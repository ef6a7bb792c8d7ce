// A model with experts that starts from a dense one computes what that does, in any layout.
#include "tessera/checkpoint/saving/upcycling.h"

#include <gtest/gtest.h>

#include "tessera/checkpoint/saving/hf_weights.h"
#include "tests/support/expect_error.h"
#include "tests/support/layout_run.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

struct UpcycledLayout {
  int expert = 1, expert_tensor = 0, tensor = 1, pipeline = 1, data = 1;
  Sharding sharding = Sharding::none;
};

constexpr UpcycledLayout kUpcycledLayouts[] = {
    {},
    {.expert = 2, .data = 2},
    {.expert = 4, .data = 4, .sharding = Sharding::parameters},
    {.expert = 2, .expert_tensor = 2, .tensor = 2, .data = 2},
    {.expert = 2, .expert_tensor = 1, .tensor = 2, .sharding = Sharding::optimizer},
    {.expert = 2, .pipeline = 2, .data = 2}};

void set_layout(ParallelOptions& parallel, const UpcycledLayout& layout) {
  parallel.expert = layout.expert;
  parallel.expert_tensor = layout.expert_tensor;
  parallel.tensor = layout.tensor;
  parallel.sequence_parallel = layout.tensor > 1;
  parallel.pipeline = layout.pipeline;
  parallel.data = layout.data;
  parallel.sharding = layout.sharding;
}

void add_router(ModelOptions& model, std::int64_t topk = 2) {
  model.num_experts = 4;
  model.moe_ffn_hidden_size = model.ffn_hidden_size;
  model.moe_router_topk = topk;
}

TEST(Upcycling, NamesWhatTheDenseModelHas) {
  EXPECT_EQ(dense_name("layers.3.mlp.experts.gate.weight"), "layers.3.mlp.gate.weight");
  EXPECT_EQ(dense_name("layers.3.attention.q.weight"), "layers.3.attention.q.weight");
  EXPECT_EQ(dense_name("layers.3.mlp.router.weight"), "");
  EXPECT_EQ(dense_name("layers.3.mlp.router.expert_bias"), "");
}

TEST(Upcycling, ScalesWhereWeightsDoNotAddUpToOne) {
  ModelOptions model;
  add_router(model);
  EXPECT_EQ(upcycling_scale(model), 1);
  model.moe_router_pre_softmax = true;
  EXPECT_EQ(upcycling_scale(model), 2) << "2 of 4 experts with a weight of 1/4 each";
  model.moe_router_scaling_factor = 4;
  EXPECT_EQ(upcycling_scale(model), 0.5);
  model.moe_router_score = RouterScore::sigmoid;
  EXPECT_EQ(upcycling_scale(model), 0.25) << "sigmoid weights of several experts add up to 1";
  model.moe_router_topk = 1;
  EXPECT_EQ(upcycling_scale(model), 0.5);
}

// The loss of the first step, from a folder of Hugging Face.
double first_loss_of(const HfFolder& folder, const ModelOptions& model,
                     const UpcycledLayout& layout) {
  SessionOptions options;
  options.model = model;
  options.model.dtype = DType::f64;
  options.shape = {16, 4 / layout.data};
  options.training = true;
  set_layout(options.parallel, layout);
  options.pipeline.first_layers = layout.pipeline > 1 ? 1 : 0;
  double loss = 0;
  run_ranks(options.parallel.ranks(), 1, [&](Rank& rank) {
    Session session(options, rank);
    load_hf_weights(session, folder, model.num_experts > 0);
    const std::int64_t first = session.context().mesh.data().rank() * options.shape.batch;
    const HostBatch batch = test::random_batch(options.shape, model.vocab_size, first);
    const double own =
        compute_gradients(
            session, [&]() -> const HostBatch& { return batch; }, LossAverage::per_token)
            .loss;
    if (rank.rank == options.parallel.ranks() - 1) loss = own;
  });
  return loss;
}

TEST(Upcycling, OfHuggingFaceModelsComputesTheSameInEveryLayout) {
  const fs::path data = fs::path(TESSERA_SOURCE_DIR) / "tests/golden/data";
  for (const char* name : {"llama3", "gemma2", "llama_yarn"}) {  // the last one has biases
    const HfFolder folder(data / name);
    ModelOptions model = folder.model().options;
    const double want = first_loss_of(folder, model, {});
    for (const std::int64_t topk : {2, 4})
      for (const UpcycledLayout& layout : kUpcycledLayouts) {
        ModelOptions upcycled = model;
        add_router(upcycled, topk);
        if (topk == 4) upcycled.moe_router_scaling_factor = 3;
        EXPECT_NEAR(first_loss_of(folder, upcycled, layout), want, 1e-12 * want)
            << name << " " << topk << ": expert " << layout.expert << " tensor " << layout.tensor
            << " pipeline " << layout.pipeline << " data " << layout.data;
      }
  }
}

Options upcycled_run(const fs::path& from, const fs::path& to, const UpcycledLayout& layout) {
  Options options = test::ranks_options(to, 3);
  options.model.dtype = DType::f64;
  options.model.gated_mlp = true;
  add_router(options.model);
  options.model.moe_layer_freq = {0, 1, 1, 0};
  set_layout(options.parallel, layout);
  options.train.load = from.string();
  options.train.upcycle = options.train.finetune = true;
  return options;
}

// The first loss of the new run is that of a run that starts from the dense weights; then the
// router and its experts learn.
TEST(Upcycling, OfCheckpointsComputesTheSameInEveryLayout) {
  const test::TempFolder temp;
  Options dense = test::ranks_options(temp / "dense", 2);
  dense.model.dtype = DType::f64;
  dense.model.gated_mlp = true;
  test::run(dense);
  dense.train.load = dense.train.save;
  dense.train.save = (temp / "more").string();
  dense.train.finetune = true;
  test::run(dense);
  const double want = test::losses_of(temp / "more").at(0);
  int run = 0;
  for (const UpcycledLayout& layout : kUpcycledLayouts) {
    const fs::path folder = temp / fmt::format("moe{}", run++);
    test::run(upcycled_run(temp / "dense", folder, layout));
    EXPECT_NEAR(test::losses_of(folder).at(0), want, 1e-12 * want) << "layout " << run;
  }
  Options more = upcycled_run(temp / "moe0", temp / "again", {});
  EXPECT_THROW(test::run(more), InputError) << "that model has experts";
  more.model.moe_ffn_hidden_size += 8;
  more.train.load = (temp / "dense").string();
  EXPECT_THROW(test::run(more), InputError) << "another width";
}

}  // namespace
}  // namespace tessera
