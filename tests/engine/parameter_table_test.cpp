// The parameters that follow from a model's spec are those that its layers make, however the model
// is cut into stages.
#include "tessera/spec/parameter_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tessera/base/check.h"
#include "tessera/engine/session.h"
#include "tessera/spec/flops.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

std::vector<ParameterInfo> made(const ParameterList& parameters) {
  std::vector<ParameterInfo> all;
  for (const Parameter* parameter : parameters)
    for (const ShardedTensor& tensor : parameter->tensors())
      if (tensor.primary)
        all.push_back(
            {tensor.name, tensor.global, parameter->init(), parameter->placement_class()});
  return all;
}

void expect_equal(const std::vector<ParameterInfo>& got, const std::vector<ParameterInfo>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_EQ(got[i].shape, want[i].shape) << want[i].name;
    EXPECT_EQ(got[i].init, want[i].init) << want[i].name;
    EXPECT_EQ(got[i].placement_class, want[i].placement_class) << want[i].name;
  }
}

class ParameterTables : public testing::TestWithParam<std::string> {};

TEST_P(ParameterTables, AreWhatLayersMake) {
  for (const bool tied : {false, true}) {
    SessionOptions options = test::tiny_session(GetParam());
    options.model.tie_embeddings = tied;
    const ModelSpec spec = model_spec(options.model);
    const ParameterTable table(spec);
    DescribedModel model(options);
    expect_equal(made(model.parameters()), table.all());
    double count = 0;
    for (const Parameter* parameter : model.parameters()) {
      if (parameter->placement_class() != PlacementClass::buffer)  // not trained
        count += static_cast<double>(parameter->shape().numel());
      EXPECT_EQ(parameter->decays(), table.find(parameter->name())->decays()) << parameter->name();
    }
    EXPECT_EQ(parameter_count(spec), count);
  }
}

TEST_P(ParameterTables, HoldForAnyStages) {
  for (const bool tied : {false, true})
    for (const int stages : {2, 4})
      for (const int chunks : {1, 2}) {
        SessionOptions options = test::tiny_session(GetParam());
        options.model.tie_embeddings = tied;
        options.model.num_layers = 8;
        options.parallel.pipeline = stages;
        options.pipeline.virtual_stages = chunks;
        if (chunks > 1) options.pipeline.schedule = ScheduleKind::interleaved;
        options.microbatches = 4;
        const ParameterTable table(model_spec(options.model));
        std::map<std::string, ParameterInfo> all;
        for (int rank = 0; rank < stages; ++rank)
          for (ParameterInfo& info : made(DescribedModel(options, rank).parameters())) {
            EXPECT_FALSE(all.contains(info.name)) << info.name << " is on two stages";
            all[info.name] = info;
          }
        ASSERT_EQ(all.size(), table.all().size());
        for (const ParameterInfo& want : table.all()) {
          ASSERT_TRUE(all.contains(want.name)) << want.name;
          EXPECT_EQ(all[want.name].shape, want.shape) << want.name;
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Families, ParameterTables, testing::ValuesIn(test::tiny_families()),
                         [](const auto& test) { return test.param; });

ModelOptions deepseek_v3() {
  ModelOptions model = test::tiny_deepseek();
  model.num_layers = 61;
  model.hidden_size = 7168;
  model.ffn_hidden_size = 18432;
  model.num_attention_heads = model.num_query_groups = 128;
  model.vocab_size = 129280;
  model.multi_latent_attention = true;
  model.qk_norm = QkNorm::per_head;
  model.q_lora_rank = 1536;
  model.kv_lora_rank = 512;
  model.kv_channels = 192;
  model.num_experts = 256;
  model.moe_router_topk = 8;
  model.moe_ffn_hidden_size = model.moe_shared_ffn = 2048;
  model.moe_layer_freq.assign(61, 1);
  std::fill_n(model.moe_layer_freq.begin(), 3, 0);
  return model;
}

// The 671 billion parameters that its authors give, and the weights that a token meets.
TEST(ParameterTable, CountsThoseOfDeepseekV3) {
  const ModelSpec spec = model_spec(deepseek_v3());
  EXPECT_EQ(parameter_count(spec), 671'026'404'352.0);
  const double attention = 187'105'280, mlp = 3.0 * 7168 * 18432, expert = 3.0 * 7168 * 2048;
  const double weights =
      61 * attention + 3 * mlp + 58 * (9 * expert + 256.0 * 7168) + 129'280.0 * 7168;
  const double per_position = 61 * 2.0 * 128 * (192 + 128);
  EXPECT_EQ(flops_per_token(spec, 4096), 3 * (2 * weights + 4096 * per_position));
}

TEST(ParameterTable, FindsByName) {
  const ParameterTable table(model_spec(test::tiny_llama()));
  EXPECT_EQ(table.shape("layers.1.attention.k.weight"), Shape({16, 32}));
  EXPECT_EQ(table.find("layers.1.attention.k.bias"), nullptr);
  EXPECT_THROW(table.shape("layers.9.mlp.up.weight"), tessera::Error);
}

}  // namespace
}  // namespace tessera
