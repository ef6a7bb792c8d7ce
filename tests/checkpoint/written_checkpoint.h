// A small checkpoint of two files and some tensors, one of them in slices, written as ranks do.
#pragma once

#include <fmt/core.h>

#include <numeric>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/format/safetensors_writer.h"

namespace tessera::test {

/// Element i of every tensor is i.
inline std::vector<float> counted(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

/// The box of a matrix [rows, columns] of counted values.
inline std::vector<float> box_of(std::int64_t columns, const Shape& offset, const Shape& extent) {
  std::vector<float> box;
  for (std::int64_t r = 0; r < extent[0]; ++r)
    for (std::int64_t c = 0; c < extent[1]; ++c)
      box.push_back(static_cast<float>((offset[0] + r) * columns + offset[1] + c));
  return box;
}

inline constexpr std::int64_t kRows = 6, kColumns = 10;

/// Adds a file with boxes of the matrix "table" [6, 10] to a staging directory and its manifest.
inline void add_file(Manifest& manifest, const fs::path& staging_dir, const std::string& name,
                     const std::vector<std::pair<Shape, Shape>>& boxes, std::int64_t vector = 0) {
  std::vector<SafetensorsDeclaration> declared;
  for (const auto& [offset, extent] : boxes)
    declared.push_back({"table" + offset.to_string(), DType::f32, extent});
  if (vector > 0) declared.push_back({"vector", DType::f32, {vector}});
  SafetensorsWriter writer(staging_dir / name, declared, {}, SafetensorsWriter::Order::given);
  const std::size_t file = manifest.files.size();
  for (const auto& [offset, extent] : boxes) {
    TensorRecord& record = manifest.tensors["table"];
    record.dtype = DType::f32;
    record.shape = {kRows, kColumns};
    record.slices.push_back({file, writer.position(), offset, extent});
    std::vector<float> values = box_of(kColumns, offset, extent);
    writer.append(ConstView(values.data(), DType::f32, extent));
  }
  if (vector > 0) {
    manifest.tensors["vector"] = {DType::f32, {vector}, {{file, writer.position(), {0}, {vector}}}};
    std::vector<float> values = counted(vector);
    writer.append(ConstView(values.data(), DType::f32, {vector}));
  }
  manifest.files.push_back(writer.close());
}

/// Commits a checkpoint of an iteration. The vector has more than two blocks of a file.
inline fs::path write_checkpoint(const fs::path& folder, std::int64_t iteration,
                                 std::int64_t vector = 5) {
  Manifest manifest;
  manifest.iteration = iteration;
  manifest.state = fmt::format("{{\"iteration\": {}}}", iteration);
  const fs::path staging_dir = create_staging_dir(folder, iteration);
  add_file(manifest, staging_dir, "model-00000.safetensors", {{{0, 0}, {4, 3}}, {{4, 0}, {2, 10}}});
  add_file(manifest, staging_dir, "model-00001.safetensors", {{{0, 3}, {4, 7}}}, vector);
  manifest.files.push_back(write_digested(staging_dir / kConfigFile, "seed: 1\n"));
  commit_staging_dir(staging_dir, folder, manifest);
  return iteration_folder(folder, iteration);
}

}  // namespace tessera::test
