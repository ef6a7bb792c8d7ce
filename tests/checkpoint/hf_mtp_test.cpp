// Layers for multi-token prediction in Hugging Face folders: DeepSeek's names, behind the last
// layer, with copies of what they share with the model.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "tessera/checkpoint/hf/hf_export.h"
#include "tessera/checkpoint/hf/hf_folder.h"
#include "tessera/checkpoint/hf/hf_import.h"
#include "tests/checkpoint/made_checkpoint.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::expect_input_error;

ModelOptions mtp_model(std::string_view family, std::int64_t depths = 1) {
  ModelOptions model = HfFolder(test::family_data(family)).model().options;
  model.dtype = DType::f32;
  model.mtp_num_layers = depths;
  return model;
}

using FileTensors = std::map<std::string, std::pair<Shape, std::vector<float>>>;

FileTensors file_tensors(const fs::path& folder) {
  FileTensors tensors;
  const SafetensorsFile file(folder / "model.safetensors");
  for (const std::string& name : file.names()) {
    auto& [shape, values] = tensors[name];
    shape = file.shape(name);
    values.resize(static_cast<std::size_t>(shape.numel()));
    file.read(name, View(values.data(), DType::f32, shape));
  }
  return tensors;
}

void write_tensors(const fs::path& folder, const FileTensors& tensors) {
  std::vector<NamedView> views;
  for (const auto& [name, tensor] : tensors)
    views.push_back({name, ConstView(tensor.second.data(), DType::f32, tensor.first)});
  fs::remove(folder / "model.safetensors");
  write_safetensors(folder / "model.safetensors", views);
}

class HfMtp : public testing::TestWithParam<std::string> {
 protected:
  fs::path exported(const ModelOptions& model) {
    Checkpoint made = test::made_checkpoint(*temp_ / "made", model);
    EXPECT_EQ(export_hf(made, model, *temp_ / "hf", {}), GetParam());
    return *temp_ / "hf";
  }
  // The warning of reading it.
  std::string warning_of(const fs::path& folder) {
    testing::internal::CaptureStderr();
    const HfFolder read(folder);
    EXPECT_EQ(read.model().options.mtp_num_layers, 0);
    for (const std::string& name : read.names()) EXPECT_FALSE(name.starts_with("mtp.")) << name;
    return testing::internal::GetCapturedStderr();
  }

  std::optional<test::TempFolder> temp_{std::in_place};
};

TEST_P(HfMtp, LayersAreBehindTheLastOne) {
  ModelOptions model = mtp_model(GetParam());
  model.tie_embeddings = false;
  const FileTensors tensors = file_tensors(exported(model));
  const std::string layer = fmt::format("model.layers.{}.", model.num_layers);
  const std::int64_t h = model.hidden_size;
  const auto expect = [&](const std::string& hf, const std::string& ours, const Shape& shape) {
    ASSERT_TRUE(tensors.contains(hf)) << hf;
    EXPECT_EQ(tensors.at(hf).first, shape) << hf;
    EXPECT_EQ(tensors.at(hf).second, test::made_values(ours, shape)) << hf;
  };
  expect(layer + "enorm.weight", "mtp.0.enorm.weight", {h});
  expect(layer + "hnorm.weight", "mtp.0.hnorm.weight", {h});
  expect(layer + "eh_proj.weight", "mtp.0.eh_proj.weight", {h, 2 * h});
  expect(layer + "shared_head.norm.weight", "mtp.0.final_norm.weight", {h});
  expect(layer + "input_layernorm.weight", "mtp.0.attention_norm.weight", {h});
  expect(layer + "embed_tokens.weight", "embedding.word.weight", {model.vocab_size, h});
  expect(layer + "shared_head.head.weight", "output.weight", {model.vocab_size, h});
  const Json config = parse_json(read_text_file(*temp_ / "hf/config.json"), "config.json");
  EXPECT_EQ(config.at("num_nextn_predict_layers"), 1);
}

TEST_P(HfMtp, ComesBackBitForBit) {
  for (const std::int64_t depths : {1, 2})
    for (const bool tied : {false, true}) {
      temp_.emplace();
      ModelOptions model = mtp_model(GetParam(), depths);
      model.tie_embeddings = tied;
      const HfFolder there(exported(model));
      EXPECT_EQ(there.model().options, model);
      Checkpoint again(import_hf(there, {*temp_ / "imported", DType::f32, "num-layers: 2\n"}));
      EXPECT_EQ(export_hf(again, model, *temp_ / "again", {}), GetParam());
      EXPECT_EQ(file_tensors(*temp_ / "again"), file_tensors(*temp_ / "hf"));
    }
}

TEST_P(HfMtp, CopiesMayBeAbsentAndMustNotDiffer) {
  const ModelOptions model = mtp_model(GetParam());
  const fs::path folder = exported(model);
  const HfFolder whole(folder);
  const FileTensors tensors = file_tensors(folder);
  for (const char* name : {"embed_tokens.weight", "shared_head.head.weight"}) {
    const std::string full = fmt::format("model.layers.{}.{}", model.num_layers, name);
    FileTensors changed = tensors;
    changed.erase(full);
    write_tensors(folder, changed);
    EXPECT_EQ(HfFolder(folder).names(), whole.names());
    changed = tensors;
    changed.at(full).second.back() += 1;
    write_tensors(folder, changed);
    expect_input_error([&] { HfFolder{folder}; }, {full.c_str(), "expected a copy"});
    changed.at(full) = {{1, 2}, {0, 0}};
    write_tensors(folder, changed);
    expect_input_error([&] { HfFolder{folder}; }, {full.c_str(), "shape"});
  }
}

// As transformers leaves a folder behind.
TEST_P(HfMtp, WithoutTensorsThereIsNone) {
  const ModelOptions model = mtp_model(GetParam());
  const fs::path folder = exported(model);
  FileTensors tensors = file_tensors(folder);
  const std::string layer = fmt::format("model.layers.{}.", model.num_layers);
  FileTensors damaged = tensors;
  damaged.erase(layer + "hnorm.weight");
  write_tensors(folder, damaged);
  const std::string name = layer + "hnorm.weight";
  expect_input_error([&] { HfFolder{folder}; }, {name.c_str(), "missing"});
  std::erase_if(tensors, [&](const auto& each) { return each.first.starts_with(layer); });
  write_tensors(folder, tensors);
  EXPECT_NE(warning_of(folder).find("num_nextn_predict_layers = 1, but there are no tensors"),
            std::string::npos);
}

TEST_P(HfMtp, WithoutTheKeyItIsSkipped) {
  const fs::path folder = exported(mtp_model(GetParam()));
  Json config = parse_json(read_text_file(folder / "config.json"), "config.json");
  config.erase("num_nextn_predict_layers");
  write_file_atomically(folder / "config.json", config.dump());
  EXPECT_NE(warning_of(folder).find("tensors of a layer for multi-token prediction are skipped"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, HfMtp, testing::Values("deepseek_v3", "glm4_moe"),
                         [](const auto& each) { return each.param; });

TEST(HfMtpExport, IsLeftOutWhereFilesHaveNone) {
  const test::TempFolder temp;
  ModelOptions model = test::small_model();
  model.mtp_num_layers = 1;
  Checkpoint made = test::made_checkpoint(temp / "made", model);
  testing::internal::CaptureStderr();
  EXPECT_EQ(export_hf(made, model, temp / "hf", {}), "llama");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("multi-token prediction are left out"),
            std::string::npos);
  ModelOptions without = model;
  without.mtp_num_layers = 0;
  Checkpoint plain = test::made_checkpoint(temp / "plain", without);
  export_hf(plain, without, temp / "plain_hf", {});
  EXPECT_EQ(file_tensors(temp / "hf"), file_tensors(temp / "plain_hf"));
}

}  // namespace
}  // namespace tessera
