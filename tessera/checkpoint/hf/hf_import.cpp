#include "tessera/checkpoint/hf/hf_import.h"

#include <optional>

#include "tessera/base/check.h"
#include "tessera/base/folder_lock.h"
#include "tessera/base/json.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/carried_files.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/safetensors_writer.h"

namespace tessera {
namespace {

constexpr const char* kWeights = "model-00000.safetensors";

// Only what a cut-off import may have left is removed.
void check_nothing_there(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool left =
        name == ".lock" || (name.starts_with("iter_") && name.find(".tmp-") != name.npos);
    check_input(left,
                "'{}' is not empty (it has '{}'), and nothing is overwritten: give a new folder",
                folder.string(), name);
  }
  remove_all_staging_dirs(folder);
}

DType type_of(const HfLocation& location, DType weights) {
  return location.accumulator ? accumulator_type(weights) : weights;
}

// Adds the file of weights to the manifest.
void import_weights(const HfFolder& folder, DType dtype, const fs::path& staging_dir,
                    Manifest& manifest) {
  std::vector<SafetensorsDeclaration> declared;
  for (const std::string& name : folder.names())
    declared.push_back({name, type_of(folder.locate(name), dtype), folder.locate(name).shape});
  SafetensorsWriter writer(staging_dir / kWeights, std::move(declared));
  std::vector<std::byte> buffer;
  for (const SafetensorsDeclaration& tensor : writer.order()) {
    buffer.resize(static_cast<std::size_t>(tensor.shape.numel()) * element_size(tensor.dtype));
    const View whole(buffer.data(), tensor.dtype, tensor.shape);
    folder.read(tensor.name, whole);
    const Shape origin = zeros_like(tensor.shape);
    manifest.tensors[tensor.name] = {
        tensor.dtype,
        tensor.shape,
        {{manifest.files.size(), writer.position(), origin, tensor.shape}}};
    writer.append(whole);
    for (const SafetensorsFile& file : folder.files()) file.forget();
  }
  manifest.files.push_back(writer.close());
}

Manifest written(const HfFolder& folder, const HfImport& import, const fs::path& staging_dir) {
  Manifest manifest;
  manifest.state = Json{
      {"iteration", 0},
      {"consumed_samples", 0},
      {"schedule_samples", 0},
      {"optimizer_steps",
       0}}.dump();
  manifest.layout = Json{{"ranks", 1}, {"source", "Hugging Face, " + folder.model().family}}.dump();
  import_weights(folder, import.dtype, staging_dir, manifest);
  manifest.files.push_back(write_digested(staging_dir / kConfigFile, import.config));
  for (const auto& [name, text] : carried_files(folder.path()))
    manifest.files.push_back(write_digested(staging_dir / name, text));
  return manifest;
}

}  // namespace

DType stored_type(const HfFolder& folder) {
  std::optional<DType> type;
  for (const std::string& name : folder.names()) {
    const HfLocation& location = folder.locate(name);
    if (location.accumulator) continue;
    for (const HfSlice& slice : location.slices) {
      const DType stored = folder.stored_type(slice);
      type = type ? common_type(*type, stored) : stored;
    }
  }
  return *type;
}

fs::path import_hf(const HfFolder& folder, const HfImport& import) {
  make_folders(import.save);
  const FolderLock lock(import.save);
  check_nothing_there(import.save);
  const fs::path staging_dir = create_staging_dir(import.save, 0);
  try {
    const std::string problem =
        commit_staging_dir(staging_dir, import.save, written(folder, import, staging_dir));
    if (!problem.empty()) log_warning("{}", problem);
  } catch (...) {
    remove_staging_dir(staging_dir);
    throw;
  }
  return iteration_folder(import.save, 0);
}

}  // namespace tessera
