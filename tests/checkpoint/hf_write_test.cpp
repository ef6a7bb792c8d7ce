#include "tessera/checkpoint/hf/hf_write.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/safetensors_writer.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_folder.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

fs::path golden_model(std::string_view family) {
  return fs::path(TESSERA_SOURCE_DIR) / "tests/checkpoint/data" / family;
}

// Reads each parameter into one buffer that the next call reuses, as a gathering caller does.
struct Source {
  const HfFolder& folder;
  std::vector<double> buffer{};
  std::map<std::string, std::size_t> asked{};

  ConstView get(const std::string& name) {
    const HfLocation& location = folder.locate(name);
    EXPECT_LE(++asked[name], location.slices.size()) << name << " was asked for too often";
    const Shape shape = location.shape;
    buffer.assign(static_cast<std::size_t>(shape.numel()), 0.0);
    folder.read(name, View(buffer.data(), DType::f64, shape));
    return {buffer.data(), DType::f64, shape};
  }
};

std::vector<NamedView> all_views(const std::vector<SafetensorsFile>& files) {
  std::vector<NamedView> views;
  for (const SafetensorsFile& file : files)
    for (const std::string& name : file.names()) views.push_back({name, file.view(name)});
  return views;
}

TEST(HfWrite, WritesWhatTransformersWrote) {
  for (const HfFamily* each : hf_families()) {
    const std::string_view family = each->name;
    SCOPED_TRACE(family);
    const test::TempFolder folder;
    const HfFolder golden(golden_model(family));
    Source source{golden};
    const ModelOptions& options = golden.model().options;
    write_hf_tensors(folder / "model.safetensors", hf_tensors(options, family),
                     [&](const std::string& name) { return source.get(name); },
                     {options.dtype, ""});
    const SafetensorsFile written(folder / "model.safetensors");
    const std::vector<NamedView> expected = all_views(golden.files());
    EXPECT_EQ(written.names().size(), expected.size());
    for (const NamedView& tensor : expected) {
      const ConstView got = written.view(tensor.name);
      ASSERT_EQ(got.to_string(), tensor.view.to_string());
      EXPECT_EQ(std::memcmp(got.raw(), tensor.view.raw(), got.bytes()), 0) << tensor.name;
    }
  }
}

TEST(HfWrite, PutsAPrefixBeforeNames) {
  const test::TempFolder folder;
  const HfFolder golden(golden_model("gpt2"));
  Source source{golden};
  write_hf_tensors(folder / "x", hf_tensors(golden.model().options, "gpt2"),
                   [&](const std::string& name) { return source.get(name); },
                   {DType::f64, "grad."});
  const SafetensorsFile written(folder / "x");
  EXPECT_EQ(written.dtype("grad.transformer.h.0.attn.c_attn.weight"), DType::f64);
  EXPECT_EQ(written.names().size(), golden.files()[0].names().size());
}

TEST(HfWrite, RefusesOtherShapes) {
  const test::TempFolder folder;
  const HfFolder golden(golden_model("llama"));
  const float x = 0.0f;
  EXPECT_THROW(write_hf_tensors(folder / "x", hf_tensors(golden.model().options, "llama"),
                                [&](const std::string&) { return ConstView(&x, DType::f32, {1}); }),
               Error);
}

}  // namespace
}  // namespace tessera
