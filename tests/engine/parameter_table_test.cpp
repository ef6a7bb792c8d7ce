// The parameters that follow from a model's spec are those that its layers make, however the model
// is cut into stages.
#include "tessera/spec/parameter_table.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/base/check.h"
#include "tessera/engine/session.h"
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

TEST(ParameterTable, FindsByName) {
  const ParameterTable table(model_spec(test::tiny_llama()));
  EXPECT_EQ(table.shape("layers.1.attention.k.weight"), Shape({16, 32}));
  EXPECT_EQ(table.find("layers.1.attention.k.bias"), nullptr);
  EXPECT_THROW(table.shape("layers.9.mlp.up.weight"), tessera::Error);
}

}  // namespace
}  // namespace tessera
