// Hugging Face folders become checkpoints, and checkpoints Hugging Face folders.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "tessera/base/check.h"
#include "tessera/base/folder_lock.h"
#include "tessera/checkpoint/carried_files.h"
#include "tessera/checkpoint/hf/hf_export.h"
#include "tessera/checkpoint/hf/hf_import.h"
#include "tessera/checkpoint/hf/hf_index.h"
#include "tessera/checkpoint/hf/weight_reader.h"
#include "tests/checkpoint/made_checkpoint.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::hf_folders;

constexpr const char* kConfig = "num-layers: 2\n";

// As tensors by their full names; a tied output weight that is stored all the same is left out.
std::map<std::string, std::string> tensor_bytes(const HfFolder& folder) {
  std::map<std::string, std::string> tensors;
  const std::string_view output = hf_family(folder.model().family).output_name;
  for (const SafetensorsFile& file : folder.files())
    for (const std::string& name : file.names()) {
      const std::string full = hf_full_name(name, folder.model().family);
      if (is_hf_buffer(name)) continue;
      if (folder.model().options.tie_embeddings && full == output) continue;
      const SafetensorsEntry& entry = file.entry(name);
      tensors[full] =
          fmt::format("{} {} ", entry.dtype, file.shape(name).to_string()) +
          std::string(reinterpret_cast<const char*>(entry.data.data()), entry.data.size());
    }
  return tensors;
}

Checkpoint imported(const fs::path& source, const fs::path& save) {
  const HfFolder folder(source);
  return Checkpoint(import_hf(folder, {save, stored_type(folder), kConfig}));
}

Json json_of(const fs::path& path) { return parse_json(read_text_file(path), path.string()); }

TEST(HfConvert, ModelsComeBackBitForBit) {
  for (const fs::path& source : hf_folders()) {
    const test::TempFolder temp;
    const HfFolder before(source);
    const auto tensors = tensor_bytes(before);
    Checkpoint checkpoint = imported(source, temp / "saved");
    std::uint64_t bytes = 0;
    for (const auto& [name, text] : tensors) bytes += text.size();
    for (const std::uint64_t most : {bytes, bytes / 3}) {
      SCOPED_TRACE(fmt::format("{}, files of {} bytes", source.string(), most));
      const fs::path folder = temp / std::to_string(most);
      HfExport options;
      options.max_shard_bytes = most;
      EXPECT_EQ(export_hf(checkpoint, before.model().options, folder, options),
                before.model().family);
      const HfFolder after(folder);
      EXPECT_EQ(after.model().options, before.model().options);
      EXPECT_EQ(tensor_bytes(after), tensors);
      EXPECT_EQ(after.files().size() > 1, most != bytes);
      EXPECT_EQ(fs::exists(folder / "model.safetensors"), most == bytes);
    }
  }
}

// Also those that the golden folders do not have.
TEST(HfConvert, AnyFamilyMayBeTiedOrNot) {
  for (const HfFamily* each : hf_families())
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, tied {}", each->name, tied));
      const test::TempFolder temp;
      ModelOptions model = HfFolder(test::family_data(each->name)).model().options;
      model.dtype = DType::f32;
      model.tie_embeddings = tied;
      Checkpoint first = test::made_checkpoint(temp / "first", model);
      const std::string family = export_hf(first, model, temp / "there", {});
      Checkpoint second = imported(temp / "there", temp / "second");
      EXPECT_EQ(export_hf(second, model, temp / "again", {}), family);
      const HfFolder there(temp / "there"), again(temp / "again");
      EXPECT_EQ(there.model().options, model);
      EXPECT_EQ(tensor_bytes(again), tensor_bytes(there));
      EXPECT_EQ(there.files()[0].contains(std::string(each->output_name)), !tied);
    }
}

TEST(HfConvert, TheIndexSaysWhatIsWhere) {
  const test::TempFolder temp;
  const fs::path source = test::golden("qwen2");  // tied
  Checkpoint checkpoint = imported(source, temp / "saved");
  HfExport options;
  options.max_shard_bytes = 10'000;
  export_hf(checkpoint, HfFolder(source).model().options, temp / "back", options);
  const std::string text = read_text_file(temp / "back/model.safetensors.index.json");
  EXPECT_EQ(text.back(), '\n');
  std::uint64_t bytes = 0;
  const WeightMap map = parse_weight_map(text, "index");
  for (const auto& [name, file] : map) {
    const SafetensorsFile opened(temp / ("back/" + file));
    bytes += opened.entry(name).data.size();
    EXPECT_LE(fs::file_size(temp / ("back/" + file)), 13'000u + 4'000u);  // a tensor may be larger
  }
  EXPECT_EQ(map.count("lm_head.weight"), 0u);
  const Json metadata = parse_json(text, "index")["metadata"];
  EXPECT_EQ(metadata["total_size"], bytes);
  EXPECT_EQ(metadata["total_parameters"], bytes / 4);
}

TEST(HfConvert, ACheckpointOfIterationZeroIsWhole) {
  const test::TempFolder temp;
  const fs::path source = test::golden("llama3");
  imported(source, temp / "saved");
  std::optional<Checkpoint> found = Checkpoint::find(temp / "saved");
  ASSERT_TRUE(found.has_value());
  found->verify();
  EXPECT_EQ(found->iteration(), 0);
  EXPECT_EQ(found->config(), kConfig);
  for (const char* counter : {"iteration", "consumed_samples", "schedule_samples"})
    EXPECT_EQ(found->counter(counter), 0);
  const HfFolder folder(source);
  EXPECT_EQ(found->manifest().tensors.size(), folder.names().size());
}

TEST(HfConvert, FilesAreCarriedAlong) {
  const test::TempFolder temp;
  fs::copy(test::golden("gpt2"), temp / "model");
  const std::string merges = "#version: 0.2\na b\n", strange("\0\xff", 2);
  std::ofstream(temp / "model/merges.txt") << merges;
  std::ofstream(temp / "model/vocab.txt") << "[UNK]\n";
  std::ofstream(temp / "model/tokenizer.model") << strange;
  std::ofstream(temp / "model/generation_config.json") << "{\"top_p\": 0.5}";
  std::ofstream(temp / "model/README.md") << "not carried";
  Checkpoint checkpoint = imported(temp / "model", temp / "saved");
  EXPECT_EQ(carried_files(checkpoint), carried_files(temp / "model"));
  export_hf(checkpoint, HfFolder(temp / "model").model().options, temp / "back", {});
  EXPECT_EQ(read_text_file(temp / "back/merges.txt"), merges);
  EXPECT_EQ(read_text_file(temp / "back/vocab.txt"), "[UNK]\n");
  EXPECT_EQ(read_text_file(temp / "back/tokenizer.model"), strange);
  EXPECT_EQ(read_text_file(temp / "back/generation_config.json"), "{\"top_p\": 0.5}");
  EXPECT_FALSE(fs::exists(temp / "back/README.md"));
  EXPECT_FALSE(fs::exists(temp / "back/hf_config.json"));
}

TEST(HfConvert, TokenIdsStay) {
  const test::TempFolder temp;
  fs::copy(test::golden("llama3"), temp / "model");
  Json config = json_of(temp / "model/config.json");
  config["eos_token_id"] = {7, 9};
  config.erase("bos_token_id");
  std::ofstream(temp / "model/config.json") << config.dump();
  Checkpoint checkpoint = imported(temp / "model", temp / "saved");
  HfExport options;
  options.end_of_document = 3;  // of our tokenizer, which is not the model's
  export_hf(checkpoint, HfFolder(temp / "model").model().options, temp / "back", options);
  const Json written = json_of(temp / "back/config.json");
  EXPECT_EQ(written["eos_token_id"], Json({7, 9}));
  EXPECT_FALSE(written.contains("bos_token_id"));
  EXPECT_EQ(json_of(temp / "back/generation_config.json"), Json({{"eos_token_id", {7, 9}}}));
}

TEST(HfConvert, AModelTrainedHereGetsAFamily) {
  const test::TempFolder temp;
  const ModelOptions model = test::small_model();
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  HfExport options;
  options.end_of_document = 4;
  EXPECT_EQ(export_hf(checkpoint, model, temp / "back", options), "llama");
  EXPECT_EQ(HfFolder(temp / "back").model().options.hidden_size, model.hidden_size);
  EXPECT_EQ(json_of(temp / "back/config.json")["eos_token_id"], 4);
  EXPECT_EQ(json_of(temp / "back/generation_config.json"), Json({{"eos_token_id", 4}}));
}

TEST(HfConvert, WhatNoFamilyCanExpressIsRefused) {
  const test::TempFolder temp;
  ModelOptions model = test::small_model();
  model.rope.percent = 0.5;
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  try {
    export_hf(checkpoint, model, temp / "back", {});
    FAIL() << "nothing was refused";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("llama: the part of a head that RoPE turns would become 1 instead of 0.5"),
              std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(fs::exists(temp / "back"));
}

TEST(HfConvert, NothingIsOverwritten) {
  const test::TempFolder temp;
  const fs::path source = test::golden("mistral");
  const HfFolder folder(source);
  const ModelOptions& model = folder.model().options;
  Checkpoint checkpoint = imported(source, temp / "saved");
  EXPECT_THROW(imported(source, temp / "saved"), InputError);

  fs::create_directory(temp / "back");
  export_hf(checkpoint, model, (temp / "back").string() + "/", {});  // empty is good
  EXPECT_THROW(export_hf(checkpoint, model, temp / "back", {}), InputError);
  std::ofstream(temp / "file") << "x";
  EXPECT_THROW(export_hf(checkpoint, model, temp / "file", {}), InputError);
  fs::create_directory(temp / "other");
  std::ofstream(temp / "other/notes.txt") << "x";
  EXPECT_THROW(imported(source, temp / "other"), InputError);
  EXPECT_EQ(read_text_file(temp / "other/notes.txt"), "x");
}

TEST(HfConvert, WhatWasCutOffIsNoHindrance) {
  const test::TempFolder temp;
  const fs::path staging_dir = create_staging_dir(temp / "saved", 0);
  std::ofstream(staging_dir / "model-00000.safetensors") << "half";
  std::optional<FolderLock> lock(std::in_place, temp / "saved");
  EXPECT_THROW(imported(test::golden("gpt2"), temp / "saved"), InputError);  // being written
  EXPECT_TRUE(fs::exists(staging_dir));
  lock.reset();
  imported(test::golden("gpt2"), temp / "saved");
  EXPECT_FALSE(fs::exists(staging_dir));
}

TEST(HfConvert, AFailedExportLeavesNothing) {
  const test::TempFolder temp;
  const fs::path source = test::golden("qwen3");
  Checkpoint checkpoint = imported(source, temp / "saved");
  test::damage(checkpoint.path() / "model-00000.safetensors", 5000);
  EXPECT_THROW(export_hf(checkpoint, HfFolder(source).model().options, temp / "back", {}),
               InputError);
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(temp.path())) ++entries;
  EXPECT_EQ(entries, 1u);  // saved
}

TEST(HfConvert, TypesAreConverted) {
  const test::TempFolder temp;
  const fs::path source = test::golden("qwen3");
  const HfFolder folder(source);
  Checkpoint checkpoint(import_hf(folder, {temp / "saved", DType::bf16, kConfig}));
  export_hf(checkpoint, folder.model().options, temp / "back", {});
  const HfFolder back(temp / "back");
  EXPECT_EQ(stored_type(back), DType::bf16);
  EXPECT_EQ(back.model().dtype, "bfloat16");
  HfExport wide;
  wide.dtype = DType::f32;
  export_hf(checkpoint, folder.model().options, temp / "wide", wide);
  const HfFolder widened(temp / "wide");
  EXPECT_EQ(stored_type(widened), DType::f32);
  for (const std::string& name : folder.names()) {
    const Shape shape = folder.locate(name).shape;
    std::vector<BFloat16> first(static_cast<std::size_t>(shape.numel()));
    std::vector<BFloat16> second = first;
    folder.read(name, View(first.data(), DType::bf16, shape));
    widened.read(name, View(second.data(), DType::bf16, shape));
    EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * 2), 0) << name;
  }
}

// Master weights, which a 16-bit run keeps in one of two forms, are what a wider export takes.
TEST(HfConvert, AWiderExportTakesTheMasterWeights) {
  for (const bool low_bits : {false, true}) {
    const test::TempFolder temp;
    const ModelOptions model = test::small_model();
    test::Made made;
    made.dtype = DType::bf16;
    made.master = low_bits ? test::Made::Master::low_bits : test::Made::Master::whole;
    Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model, made);
    WeightReader exact(checkpoint, model, DType::f32), stored(checkpoint, model, std::nullopt);
    EXPECT_EQ(stored.dtype(), DType::bf16);
    const Shape shape = checkpoint.tensor("output.weight").shape;
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    exact.read("output.weight", View(values.data(), DType::f32, shape));
    EXPECT_EQ(values, test::made_values("output.weight", shape));
  }
}

// The bias of experts is f32 beside bf16 weights, in the checkpoint as in files, and does not make
// these f32.
TEST(HfConvert, TheBiasOfExpertsKeepsItsType) {
  const test::TempFolder temp;
  const fs::path source = test::family_data("glm4_moe");
  const HfFolder folder(source);
  const std::string name = "layers.1.mlp.router.expert_bias";
  EXPECT_EQ(stored_type(folder), DType::bf16);
  Checkpoint checkpoint = imported(source, temp / "saved");
  EXPECT_EQ(checkpoint.tensor(name).dtype, DType::f32);
  EXPECT_EQ(checkpoint.tensor("output.weight").dtype, DType::bf16);
  HfExport half;
  half.dtype = DType::f16;
  half.max_shard_bytes = 3000;
  export_hf(checkpoint, folder.model().options, temp / "half", half);
  const HfFolder exported(temp / "half");
  const HfSlice bias = exported.locate(name).slices.front();
  EXPECT_EQ(exported.files()[bias.file].dtype(bias.tensor), DType::f32);
  EXPECT_EQ(stored_type(exported), DType::f16);
  std::uint64_t bytes = 0;
  for (const SafetensorsFile& file : exported.files())
    for (const std::string& each : file.names()) bytes += file.entry(each).data.size();
  EXPECT_EQ(json_of(temp / "half/model.safetensors.index.json")["metadata"]["total_size"], bytes);
}

// A wider export takes the master weights of one expert after the other.
TEST(HfConvert, AWiderExportTakesTheMasterWeightsOfExperts) {
  for (const auto master : {test::Made::Master::low_bits, test::Made::Master::whole}) {
    const test::TempFolder temp;
    const ModelOptions model = HfFolder(test::family_data("mixtral")).model().options;
    Checkpoint checkpoint =
        test::made_checkpoint(temp / "saved", model, {.dtype = DType::bf16, .master = master});
    HfExport wide;
    wide.dtype = DType::f32;
    export_hf(checkpoint, model, temp / "wide", wide);
    const HfFolder folder(temp / "wide");
    const std::string name = "layers.1.mlp.experts.down.weight";
    const Shape shape = folder.locate(name).shape;
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    folder.read(name, View(values.data(), DType::f32, shape));
    EXPECT_EQ(values, test::made_values(name, shape));
  }
}

}  // namespace
}  // namespace tessera
