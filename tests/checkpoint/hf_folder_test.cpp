#include "tessera/checkpoint/hf/hf_folder.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "tessera/checkpoint/format/safetensors_writer.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_write.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::expect_input_error;
using test::TempFolder;
using test::write_bytes;

fs::path data(const std::string& family) {
  return fs::path(TESSERA_SOURCE_DIR) / "tests/checkpoint/data" / family;
}

void copy_model(const std::string& family, const TempFolder& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(data(family)))
    fs::copy(entry.path(), folder / entry.path().filename().string());
}

// Writes a file of one-element-wide tensors again under changed names and shapes.
using Tensors = std::map<std::string, std::vector<float>>;
struct Model {
  Tensors values;
  std::map<std::string, Shape> shapes;

  void load(const SafetensorsFile& file) {
    for (const std::string& name : file.names()) {
      shapes[name] = file.shape(name);
      values[name].resize(static_cast<std::size_t>(shapes[name].numel()));
      file.read(name, View(values[name].data(), DType::f32, shapes[name]));
    }
  }
  void add(const std::string& name, const Shape& shape) {
    shapes[name] = shape;
    values[name].assign(static_cast<std::size_t>(shape.numel()), 0.0f);
  }
  void save(const fs::path& path) const {
    std::vector<NamedView> views;
    for (const auto& [name, shape] : shapes)
      views.push_back({name, ConstView(values.at(name).data(), DType::f32, shape)});
    write_safetensors(path, views);
  }
};

// The GPT-2 golden model, changed by `change`, in a folder of its own.
void make_gpt2(const TempFolder& folder, const std::function<void(Model&)>& change) {
  copy_model("gpt2", folder);
  Model model;
  model.load(SafetensorsFile(folder / "model.safetensors"));
  change(model);
  fs::remove(folder / "model.safetensors");
  model.save(folder / "model.safetensors");
}

// What make_data.py put into element j of the k-th tensor by name.
float element(std::size_t k, std::int64_t j) {
  return static_cast<float>((31 * static_cast<std::int64_t>(k) + j) % 251 - 125);
}

// The place of a tensor among all names of a checkpoint.
std::size_t number_of(const HfFolder& folder, const std::string& tensor) {
  std::set<std::string> names;
  for (const SafetensorsFile& file : folder.files())
    for (const std::string& name : file.names()) names.insert(name);
  return static_cast<std::size_t>(std::distance(names.begin(), names.find(tensor)));
}

std::vector<float> read_all(const HfFolder& folder, const std::string& name) {
  const Shape shape = folder.locate(name).shape;
  std::vector<float> values(static_cast<std::size_t>(shape.numel()), -1000.0f);
  folder.read(name, View(values.data(), DType::f32, shape));
  return values;
}

// The elements of a slice come from where the slice says.
void expect_values(const HfFolder& folder, const HfSlice& slice, std::span<const float> values) {
  const std::size_t k = number_of(folder, slice.tensor);
  const std::int64_t rows = slice.shape[0];
  const std::int64_t columns = slice.shape.rank() == 2 ? slice.shape[1] : 1;
  const Shape stored = folder.files()[slice.file].shape(slice.tensor);
  const std::int64_t width = slice.transposed ? stored[-1] : columns;
  const std::int64_t first = slice.in_stack ? *slice.in_stack * (stored.numel() / stored[0]) : 0;
  for (std::int64_t o = 0; o < rows; ++o)
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t share = rows / slice.blocks;
      const std::int64_t out = slice.block_rows * (o / share) + slice.out_begin + o % share;
      const std::int64_t j = slice.transposed ? i * width + out : out * width + i;
      ASSERT_EQ(values[static_cast<std::size_t>(o * columns + i)], element(k, first + j))
          << o << " " << i;
    }
}

TEST(HfFolder, ReadsEveryParameterOfEachFamily) {
  for (const HfFamily* family : hf_families()) {
    SCOPED_TRACE(family->name);
    const HfFolder folder(data(std::string(family->name)));
    EXPECT_EQ(folder.model().family, family->name);
    std::size_t elements = 0;
    for (const std::string& name : folder.names()) {
      const std::vector<float> values = read_all(folder, name);
      std::span<const float> rest = values;
      for (const HfSlice& slice : folder.locate(name).slices) {
        const auto count = static_cast<std::size_t>(slice.shape.numel());
        SCOPED_TRACE(name + " in " + slice.tensor);
        expect_values(folder, slice, rest.first(count));
        rest = rest.subspan(count);
      }
      EXPECT_TRUE(rest.empty()) << name;
      elements += values.size();
    }
    std::size_t stored = 0;
    for (const SafetensorsFile& file : folder.files())
      for (const std::string& name : file.names())
        stored += static_cast<std::size_t>(file.shape(name).numel());
    EXPECT_EQ(elements, stored) << "every element of the files belongs to one parameter";
  }
}

TEST(HfFolder, ReadsOptionsOfEachFamily) {
  const ModelOptions gpt2 = HfFolder(data("gpt2")).model().options;
  EXPECT_EQ(gpt2.ffn_hidden_size, 10);
  EXPECT_EQ(gpt2.max_position_embeddings, 6);
  const HfFolder split(data("llama"));
  EXPECT_GT(split.files().size(), 1u);
  EXPECT_EQ(split.model().options.rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(split.model().options.rope.base, 500000.0);
  EXPECT_TRUE(split.model().options.attention_output_bias);
  const ModelOptions mistral = HfFolder(data("mistral")).model().options;
  EXPECT_EQ(mistral.attention_window, 16);
  EXPECT_EQ(mistral.kv_channels, 6);
  EXPECT_EQ(mistral.dtype, DType::f16);
  const ModelOptions qwen2 = HfFolder(data("qwen2")).model().options;
  EXPECT_EQ(qwen2.attention_window, 5);
  EXPECT_EQ(qwen2.window_first_layer, 1);
  EXPECT_TRUE(qwen2.tie_embeddings);
  const ModelOptions qwen3 = HfFolder(data("qwen3")).model().options;
  EXPECT_EQ(qwen3.rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(qwen3.rope.original_max_position, 16);
  EXPECT_EQ(qwen3.dtype, DType::bf16);
}

TEST(HfFolder, ReadsAnyBox) {
  for (const std::string family : {"gpt2", "qwen3", "phi3", "gpt_neox"}) {
    const HfFolder folder(data(family));
    for (const std::string name : {"layers.0.attention.k.weight", "layers.0.mlp.down.weight"}) {
      const Shape shape = folder.locate(name).shape;
      const std::vector<float> whole = read_all(folder, name);
      for (std::int64_t o = 0; o < shape[0]; o += 2)
        for (std::int64_t i = 0; i < shape[1]; i += 3) {
          const Shape extent{std::min<std::int64_t>(3, shape[0] - o), shape[1] - i};
          std::vector<double> box(static_cast<std::size_t>(extent.numel()));
          folder.read_box(name, {o, i}, extent, View(box.data(), DType::f64, extent));
          for (std::int64_t a = 0; a < extent[0]; ++a)
            for (std::int64_t b = 0; b < extent[1]; ++b)
              ASSERT_EQ(box[static_cast<std::size_t>(a * extent[1] + b)],
                        whole[static_cast<std::size_t>((o + a) * shape[1] + i + b)]);
        }
    }
  }
}

TEST(HfFolder, ReadsBoxesOfExperts) {
  for (const char* family : {"mixtral", "granitemoe"})
    for (const char* matrix : {"gate", "up", "down"}) {
      const HfFolder folder(data(family));
      const std::string name = fmt::format("layers.0.mlp.experts.{}.weight", matrix);
      const Shape shape = folder.locate(name).shape;
      ASSERT_EQ(shape.rank(), 3);
      ASSERT_EQ(shape[0], 3);
      const std::vector<float> whole = read_all(folder, name);
      const Shape offset{1, 2, 3}, extent{2, shape[1] - 2, shape[2] - 4};
      std::vector<double> box(static_cast<std::size_t>(extent.numel()));
      folder.read_box(name, offset, extent, View(box.data(), DType::f64, extent));
      std::size_t at = 0;
      for (std::int64_t e = 1; e < 3; ++e)
        for (std::int64_t o = 2; o < shape[1]; ++o)
          for (std::int64_t i = 3; i < shape[2] - 1; ++i)
            ASSERT_EQ(box[at++], whole[static_cast<std::size_t>((e * shape[1] + o) * shape[2] + i)])
                << name << " " << e << " " << o << " " << i;
      EXPECT_THROW(folder.read_box(name, {2, 0, 0}, extent, View(box.data(), DType::f64, extent)),
                   Error);
    }
}

TEST(HfFolder, RefusesBoxesAndShapesThatDoNotFit) {
  const HfFolder folder(data("gpt2"));
  std::vector<float> space(100);
  const auto box = [&](const Shape& offset, const Shape& extent) {
    folder.read_box("layers.0.attention.q.weight", offset, extent,
                    View(space.data(), DType::f32, extent));
  };
  EXPECT_NO_THROW(box({3, 0}, {3, 6}));
  EXPECT_THROW(box({4, 0}, {3, 6}), Error) << "would reach into the keys";
  EXPECT_THROW(box({0, 1}, {3, 6}), Error);
  EXPECT_THROW(box({0}, {3}), Error);
  expect_input_error([&] { folder.read("final_norm.weight", View(space.data(), DType::f32, {7})); },
                     {"model.safetensors", "final_norm.weight", "[7]", "[6]"});
  expect_input_error([&] { folder.locate("layers.2.mlp.up.weight"); }, {"layers.2.mlp.up.weight"});
  expect_input_error([&] { folder.read("final_norm.weight", View(space.data(), DType::i32, {6})); },
                     {"F32", "i32"});
}

TEST(HfFolder, AcceptsGpt2WithoutPrefixAndWithBuffers) {
  const TempFolder folder;
  make_gpt2(folder, [](Model& model) {
    Model renamed;
    for (const auto& [name, shape] : model.shapes) {
      const std::string bare = name.substr(std::string("transformer.").size());
      renamed.shapes[bare] = shape;
      renamed.values[bare] = model.values[name];
    }
    renamed.add("h.0.attn.bias", {1, 1, 6, 6});
    renamed.add("h.1.attn.masked_bias", {});
    renamed.add("lm_head.weight", {11, 6});
    model = renamed;
  });
  const HfFolder bare(folder.path());
  const HfFolder golden(data("gpt2"));
  EXPECT_EQ(bare.locate("embedding.word.weight").slices.front().tensor, "wte.weight");
  for (const std::string& name : golden.names())
    EXPECT_EQ(read_all(bare, name), read_all(golden, name)) << name;
}

// save_pretrained(save_original_format=False): experts as transformers 5 has them in memory.
TEST(HfFolder, ReadsStacksOfExperts) {
  int forms = 0;
  for (const HfFamily* family : hf_families()) {
    if (family->memory_tensors == nullptr) continue;
    SCOPED_TRACE(family->name);
    ++forms;
    const TempFolder folder;
    const fs::path golden = fs::path(TESSERA_SOURCE_DIR) / "tests/golden/data";
    const bool dense = family->name == "deepseek_v3";  // the folder beside has no experts
    const HfFolder separate(dense ? golden / "deepseek_v3_moe" : data(std::string(family->name)));
    fs::copy(separate.path() / "config.json", folder / "config.json");
    const ModelOptions& options = separate.model().options;
    const auto read = [&](const HfPart& part, const Shape& offset, const View& to) {
      separate.read_box(part.name, offset, to.shape(), to);
    };
    write_hf_tensors(folder / "model.safetensors", family->memory_tensors(options), read,
                     {options.dtype, ""});
    const HfFolder stacked(folder.path());
    EXPECT_LT(stacked.files()[0].names().size(), separate.files()[0].names().size());
    EXPECT_EQ(stacked.names(), separate.names());
    for (const std::string& name : separate.names())
      EXPECT_EQ(read_all(stacked, name), read_all(separate, name)) << name;
  }
  EXPECT_EQ(forms, 7);
}

// As transformers does.
TEST(HfFolder, SkipsALayerForMultiTokenPrediction) {
  const TempFolder folder;
  copy_model("glm4_moe", folder);
  Model model;
  model.load(SafetensorsFile(folder / "model.safetensors"));
  model.add("model.layers.2.eh_proj.weight", {8, 16});
  model.add("model.layers.2.mlp.experts.0.up_proj.weight", {10, 8});
  fs::remove(folder / "model.safetensors");
  model.save(folder / "model.safetensors");
  testing::internal::CaptureStderr();
  const HfFolder skipped(folder.path());
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("2 tensors of a layer for multi-token prediction are skipped"),
            std::string::npos);
  EXPECT_EQ(skipped.names(), HfFolder(data("glm4_moe")).names());
  model.add("model.layers.3.norm.weight", {8});
  fs::remove(folder / "model.safetensors");
  model.save(folder / "model.safetensors");
  expect_input_error([&] { HfFolder{folder.path()}; }, {"model.layers.3.norm.weight"});
}

TEST(HfFolder, ReadsSeveralFilesWithoutAnIndex) {
  const TempFolder folder;
  copy_model("llama", folder);
  fs::remove(folder / "model.safetensors.index.json");
  const HfFolder loose(folder.path());
  const HfFolder golden(data("llama"));
  EXPECT_EQ(read_all(loose, "output.weight"), read_all(golden, "output.weight"));
}

TEST(HfFolder, RefusesTensorsThatDoNotFit) {
  const auto refused = [](const std::function<void(Model&)>& change,
                          std::initializer_list<const char*> parts) {
    const TempFolder folder;
    make_gpt2(folder, change);
    expect_input_error([&] { HfFolder{folder.path()}; }, parts);
  };
  refused([](Model& model) { model.shapes.erase("transformer.h.1.mlp.c_fc.bias"); },
          {"1 tensors", "missing", "transformer.h.1.mlp.c_fc.bias", "model.safetensors"});
  refused([](Model& model) { model.shapes.clear(); }, {"28 tensors", "and 23 more"});
  refused([](Model& model) { model.add("extra.weight", {2}); },
          {"1 tensors", "extra.weight", "gpt2", "model.safetensors"});
  refused(
      [](Model& model) {
        for (int i = 0; i < 8; ++i) model.add("h.2.x" + std::to_string(i), {1});
      },
      {"8 tensors", "h.2.x4", "and 3 more"});
  refused(
      [](Model& model) {
        model.shapes["transformer.h.0.attn.c_attn.weight"] = {18, 6};
      },
      {"model.safetensors", "c_attn.weight", "[6, 18]", "[18, 6]"});
  refused(
      [](Model& model) {
        model.add("lm_head.weight", {12, 6});
      },
      {"lm_head.weight", "[11, 6]", "[12, 6]"});
  refused(
      [](Model& model) {
        model.add("wte.weight", {11, 6});
      },
      {"transformer.wte.weight", "again"});
  refused([](Model& model) { model.shapes["transformer.ln_f.bias"] = {1, 1, 1, 1, 1, 6}; },
          {"ln_f.bias", "[1, 1, 1, 1, 1, 6]"});
}

TEST(HfFolder, RefusesTypesThatCannotBeComputedWith) {
  const TempFolder folder;
  write_bytes(folder / "config.json",
              R"({"model_type":"gpt2","n_layer":1,"n_head":1,"n_embd":2,"vocab_size":1})");
  const HfModel model = read_hf_config(folder.path());
  for (const std::string dtype : {"I8", "U8", "F8_E4M3"}) {
    std::string header = "{";
    std::int64_t begin = 0;
    for (const HfTensor& tensor : hf_tensors(model.options, "gpt2")) {
      const std::int64_t end = begin + tensor.shape.numel();
      header += (begin ? "," : "") +
                fmt::format(R"("{}":{{"dtype":"{}","shape":{},)", tensor.name, dtype,
                            tensor.shape.to_string()) +
                fmt::format("\"data_offsets\":[{},{}]}}", begin, end);
      begin = end;
    }
    write_bytes(folder / "model.safetensors",
                test::safetensors_bytes(header + "}", static_cast<std::size_t>(begin)));
    expect_input_error([&] { HfFolder{folder.path()}; },
                       {"transformer.wte.weight", dtype.c_str(), "model.safetensors"});
  }
}

TEST(HfFolder, RefusesFoldersWithoutWeights) {
  const TempFolder folder;
  expect_input_error([&] { HfFolder{folder.path()}; }, {"config.json"});
  fs::copy(data("gpt2") / "config.json", folder / "config.json");
  expect_input_error([&] { HfFolder{folder.path()}; },
                     {"no safetensors file", "model.safetensors.index.json"});
  write_bytes(folder / "pytorch_model.bin", "x");
  expect_input_error([&] { HfFolder{folder.path()}; }, {"pytorch_model.bin"});
}

TEST(HfFolder, RefusesADamagedIndex) {
  const auto refused = [](const std::string& index, std::initializer_list<const char*> parts) {
    SCOPED_TRACE(index);
    const TempFolder folder;
    copy_model("llama", folder);
    write_bytes(folder / "model.safetensors.index.json", index);
    expect_input_error([&] { HfFolder{folder.path()}; }, parts);
    expect_input_error([&] { HfFolder{folder.path()}; }, {"model.safetensors.index.json"});
  };
  const auto entry = [](const std::string& file) {
    return R"({"weight_map":{"model.norm.weight":)" + file + "}}";
  };
  refused("", {"not valid JSON"});
  refused("{}", {"weight_map"});
  refused("[1]", {"weight_map"});
  refused(R"({"weight_map":[]})", {"weight_map"});
  refused(entry("7"), {"model.norm.weight", "number"});
  refused(entry(R"("../model-00001-of-00002.safetensors")"), {"../model", "in this folder"});
  refused(entry(R"("/etc/passwd")"), {"/etc/passwd", "in this folder"});
  refused(entry(R"("..")"), {"'..'"});
  refused(entry(R"("")"), {"''"});
  refused(entry(R"("x\u0000.safetensors")"), {"in this folder"});
  refused(entry(R"("config.json")"), {"config.json", "safetensors file"});
  refused(entry(R"("model-00009-of-00009.safetensors")"),
          {"model.norm.weight", "model-00009-of-00009.safetensors", "missing"});
  refused(R"({"weight_map":{"none":"model-00001-of-00002.safetensors"}})",
          {"'none'", "model-00001-of-00002.safetensors", "missing"});
  refused(R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})", {"'a'", "twice"});
}

TEST(HfFolder, SaysWhichFilesWereSearched) {
  const TempFolder folder;
  copy_model("llama", folder);
  // An index that has forgotten the second file: its tensors are missing.
  write_bytes(folder / "model.safetensors.index.json",
              R"({"weight_map":{"model.embed_tokens.weight":"model-00001-of-00002.safetensors"}})");
  expect_input_error([&] { HfFolder{folder.path()}; },
                     {"missing in", "model-00001-of-00002.safetensors", "model.layers.1."});
  // The same tensors in two files.
  fs::copy(folder / "model-00001-of-00002.safetensors", folder / "model-00003.safetensors");
  fs::remove(folder / "model.safetensors.index.json");
  expect_input_error([&] { HfFolder{folder.path()}; },
                     {"again in", "model-00001-of-00002.safetensors", "model-00003.safetensors"});
}

TEST(HfFolder, RefusesAWeightFileCutShort) {
  const TempFolder folder;
  copy_model("qwen3", folder);
  const fs::path path = folder / "model.safetensors";
  const std::string whole = read_text_file(path);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    write_bytes(path, whole.substr(0, size));
    expect_input_error([&] { HfFolder{folder.path()}; }, {"model.safetensors"});
  }
}

}  // namespace
}  // namespace tessera
