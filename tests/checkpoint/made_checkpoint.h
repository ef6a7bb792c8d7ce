// Checkpoints for tests: models of a few layers, with values that follow from their names.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/json.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/safetensors_writer.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_names.h"

namespace tessera::test {

inline fs::path golden(const std::string& name) {
  return fs::path(TESSERA_SOURCE_DIR) / "tests/golden/data" / name;
}

/// A model of the family, as transformers saves it.
inline fs::path family_data(std::string_view family) {
  return fs::path(TESSERA_SOURCE_DIR) / "tests/checkpoint/data" / family;
}

/// Every Hugging Face folder of the tests: tied and untied, one file and several, f32 and bf16.
inline std::vector<fs::path> hf_folders() {
  std::vector<fs::path> folders;
  for (const char* name : {"gpt2",
                           "llama3",
                           "llama_linear",
                           "llama_yarn",
                           "mistral",
                           "qwen2",
                           "qwen3",
                           "gemma",
                           "gemma2",
                           "gemma3",
                           "phi3",
                           "olmo2",
                           "granite",
                           "gpt_neox",
                           "gpt_neox_sequential",
                           "cohere",
                           "cohere2",
                           "mixtral",
                           "qwen3_moe",
                           "qwen3_moe_v4",
                           "qwen2_moe",
                           "glm4_moe",
                           "glm4_moe_v4",
                           "olmoe",
                           "granitemoe",
                           "deepseek_v3",
                           "deepseek_v3_plain_queries",
                           "deepseek_v3_moe",
                           "gpt_oss",
                           "llama4",
                           "deepseek_v2",
                           "deepseek_v2_lite"})
    folders.push_back(golden(name));
  for (const HfFamily* family : hf_families()) folders.push_back(family_data(family->name));
  return folders;
}

/// Like Llama, with grouped queries.
inline ModelOptions small_model() {
  ModelOptions model;
  model.num_layers = 2;
  model.hidden_size = 8;
  model.ffn_hidden_size = 12;
  model.num_attention_heads = 4;
  model.num_query_groups = 2;
  model.kv_channels = 2;
  model.vocab_size = 11;
  model.max_position_embeddings = 16;
  model.position_embedding = PositionEmbedding::rope;
  model.normalization = Normalization::rms_norm;
  model.activation = Activation::silu;
  model.gated_mlp = true;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = false;
  model.tie_embeddings = false;
  return model;
}

struct Made {
  enum class Master { none, whole, low_bits };

  DType dtype = DType::f32;
  Master master = Master::none;
  std::int64_t iteration = 3;
  std::int64_t slices = 1;  ///< of each matrix, by columns
};

/// Not exact in 16 bits.
inline std::vector<float> made_values(const std::string& name, const Shape& shape) {
  std::size_t seed = 0;
  for (const char letter : name) seed = seed * 31 + static_cast<unsigned char>(letter);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((seed % 1000 + i * 7919) % 10007) / 10007.0f - 0.4f;
  return values;
}

/// Writes one file of tensors and adds it to a manifest.
class MadeFile {
 public:
  void add(const std::string& name, const Shape& shape, DType dtype, std::vector<std::byte> bytes) {
    tensors_.push_back({name, shape, dtype, std::move(bytes)});
  }
  void write(const fs::path& path, Manifest& manifest, std::int64_t slices) const {
    std::vector<SafetensorsDeclaration> declared;
    std::vector<std::pair<const Tensor*, TensorSlice>> order;
    for (const Tensor& tensor : tensors_) {
      const std::int64_t last = tensor.shape[-1];
      const std::int64_t parts = tensor.shape.rank() == 2 ? std::min(slices, last) : 1;
      for (std::int64_t i = 0; i < parts; ++i) {
        TensorSlice slice{manifest.files.size(), 0, tensor.shape, tensor.shape};
        for (int d = 0; d < tensor.shape.rank(); ++d) slice.offset[d] = 0;
        slice.offset[-1] = last * i / parts;
        slice.extent[-1] = last * (i + 1) / parts - slice.offset[-1];
        declared.push_back({fmt::format("{}[{}]", tensor.name, i), tensor.dtype, slice.extent});
        order.emplace_back(&tensor, slice);
      }
      manifest.tensors[tensor.name] = {tensor.dtype, tensor.shape, {}};
    }
    SafetensorsWriter writer(path, declared, {}, SafetensorsWriter::Order::given);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return element_size(a.first->dtype) > element_size(b.first->dtype);
    });
    for (auto& [tensor, slice] : order) {
      slice.at = writer.position();
      const ConstView whole(tensor->bytes.data(), tensor->dtype, tensor->shape);
      writer.append(whole.slice(tensor->shape.rank() - 1, slice.offset[-1], slice.extent[-1]));
      manifest.tensors[tensor->name].slices.push_back(slice);
    }
    manifest.files.push_back(writer.close());
  }

 private:
  struct Tensor {
    std::string name;
    Shape shape;
    DType dtype;
    std::vector<std::byte> bytes;
  };
  std::vector<Tensor> tensors_;
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto span = std::as_bytes(std::span(values));
  return {span.begin(), span.end()};
}

/// A vector that is kept in the accumulator type, and has no state.
inline void add_accumulator(const HfPart& part, const Made& made, MadeFile& weights) {
  const std::vector<float> values = made_values(part.name, part.shape);
  const DType type = accumulator_type(made.dtype);
  std::vector<std::byte> bytes(values.size() * element_size(type));
  convert_into(View(bytes.data(), type, part.shape),
               ConstView(values.data(), DType::f32, part.shape));
  weights.add(part.name, part.shape, type, std::move(bytes));
}

inline void add_parameter(const HfPart& part, const Made& made, MadeFile& weights,
                          MadeFile& optimizer) {
  const std::vector<float> values = made_values(part.name, part.shape);
  std::vector<std::byte> bytes(values.size() * element_size(made.dtype));
  convert_into(View(bytes.data(), made.dtype, part.shape),
               ConstView(values.data(), DType::f32, part.shape));
  if (made.master == Made::Master::whole)
    optimizer.add("master." + part.name, part.shape, DType::f32, bytes_of(values));
  if (made.master == Made::Master::low_bits) {
    std::vector<std::int16_t> low_bits;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t high = 0;
      std::memcpy(&high, bytes.data() + 2 * i, 2);
      low_bits.push_back(static_cast<std::int16_t>(std::bit_cast<std::uint32_t>(values[i]) -
                                                   (std::uint32_t{high} << 16)));
    }
    optimizer.add("master_rest." + part.name, part.shape, DType::i16, bytes_of(low_bits));
  }
  optimizer.add("exp_avg." + part.name, part.shape, DType::f32, bytes_of(values));
  weights.add(part.name, part.shape, made.dtype, std::move(bytes));
}

/// One checkpoint in `folder`, with weights and an optimizer's state.
inline Checkpoint made_checkpoint(const fs::path& folder, const ModelOptions& model,
                                  const Made& made = {}) {
  MadeFile weights, optimizer;
  for (const HfTensor& tensor : hf_tensors(model, ""))
    for (const HfPart& part : tensor.parts)
      tensor.accumulator ? add_accumulator(part, made, weights)
                         : add_parameter(part, made, weights, optimizer);
  const fs::path staging_dir = create_staging_dir(folder, made.iteration);
  Manifest manifest;
  manifest.iteration = made.iteration;
  manifest.state = Json{{"consumed_samples", 24}, {"iteration", made.iteration}}.dump();
  manifest.layout = Json{{"ranks", 2}, {"tensor", 2}}.dump();
  weights.write(staging_dir / "model-00000.safetensors", manifest, made.slices);
  optimizer.write(staging_dir / "optimizer-00000.safetensors", manifest, made.slices);
  manifest.files.push_back(write_digested(staging_dir / kConfigFile, "num-layers: 2\n"));
  commit_staging_dir(staging_dir, folder, manifest);
  return Checkpoint(iteration_folder(folder, made.iteration));
}

/// Flips a bit.
inline void damage(const fs::path& path, std::int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char old = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(old ^ 1));
}

}  // namespace tessera::test
