#include "tessera/checkpoint/hf/hf_export.h"

#include <array>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/carried_files.h"
#include "tessera/checkpoint/hf/hf_config.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_index.h"
#include "tessera/checkpoint/hf/hf_write.h"
#include "tessera/checkpoint/hf/weight_reader.h"
#include "tessera/checkpoint/new_folder.h"

namespace tessera {
namespace {

constexpr const char* kGenerationConfig = "generation_config.json";
constexpr std::array<std::string_view, 3> kTokenIds{"bos_token_id", "eos_token_id", "pad_token_id"};
// What our options do not have, and a config that was there has: it says nothing of the weights.
constexpr std::array<std::string_view, 4> kOtherKeys{
    "use_cache", "pretraining_tp", "reorder_and_upcast_attn", "router_aux_loss_coef"};

std::string choose_family(const ModelOptions& model, const Json& original) {
  if (!original.is_null()) {
    std::string family = original.value("model_type", "");
    const std::string problem = hf_family_problem(model, family);
    check_input(problem.empty(),
                "this model came from Hugging Face as '{}' and is no longer one: {}", family,
                problem);
    return family;
  }
  std::string family = hf_family_for(model);
  if (!family.empty()) return family;
  std::string reasons;
  for (const HfFamily* each : hf_families())
    reasons += fmt::format("\n  {}: {}", each->name, hf_family_problem(model, each->name));
  fail_input("no family of Hugging Face models can express this model:{}", reasons);
}

// The model without multi-token prediction if files of its family do not have that: it is of use in
// training alone.
ModelOptions exported_model(const ModelOptions& saved, const Json& original) {
  if (saved.mtp_num_layers == 0) return saved;
  const HfFamily* family = original.is_null() ? find_hf_family(hf_family_for(saved))
                                              : find_hf_family(original.value("model_type", ""));
  if (family != nullptr && family->mtp_layers) return saved;
  log_warning(
      "the {} layer(s) for multi-token prediction are left out: files of this family do not have "
      "them",
      saved.mtp_num_layers);
  ModelOptions model = saved;
  model.mtp_num_layers = 0;
  return model;
}

// An id that the original does not give is left out, since transformers has its own for a family.
Json config_of(const ModelOptions& model, const std::string& family, const Json& original,
               const HfExport& options) {
  Json config = hf_config_for(model, family);
  if (original.is_null()) {
    if (options.end_of_document) config["eos_token_id"] = *options.end_of_document;
    return config;
  }
  for (const std::string_view key : kTokenIds) {
    config.erase(std::string(key));
    if (original.contains(key)) config[std::string(key)] = original[std::string(key)];
  }
  for (const std::string_view key : kOtherKeys)
    if (original.contains(key)) config[std::string(key)] = original[std::string(key)];
  return config;
}

void write_text(const fs::path& path, const std::string& text) {
  FileWriter file(path);
  file.write(text.data(), text.size());
  file.close();
}

void write_generation_config(const fs::path& folder, const Json& config) {
  if (fs::exists(folder / kGenerationConfig)) return;  // carried along
  Json ids = Json::object();
  for (const std::string_view key : kTokenIds)
    if (config.contains(key) && !config[std::string(key)].is_null())
      ids[std::string(key)] = config[std::string(key)];
  if (!ids.empty()) write_text(folder / kGenerationConfig, ids.dump(2) + "\n");
}

struct Shards {
  std::vector<std::vector<HfTensor>> tensors;  // of each file
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
};

Shards divided(std::vector<HfTensor> tensors, DType dtype, std::uint64_t most) {
  Shards shards;
  std::uint64_t used = 0;
  for (HfTensor& tensor : tensors) {
    const auto elements = static_cast<std::uint64_t>(tensor.shape.numel());
    const std::uint64_t bytes = elements * element_size(tensor.type_among(dtype));
    if (shards.tensors.empty() || (used > 0 && used + bytes > most)) {
      shards.tensors.emplace_back();
      used = 0;
    }
    used += bytes;
    shards.parameters += elements;
    shards.bytes += bytes;
    shards.tensors.back().push_back(std::move(tensor));
  }
  return shards;
}

void export_weights(const fs::path& folder, const Shards& shards, WeightReader& weights) {
  WeightMap map;
  const std::size_t count = shards.tensors.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = count == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
    write_hf_tensors(folder / name, shards.tensors[i],
                     [&](const HfPart& part, const Shape& offset, const View& to) {
                       weights.read_box(part.name, offset, to);
                     },
                     {weights.dtype(), ""});
    for (const HfTensor& tensor : shards.tensors[i]) map[tensor.name] = name;
  }
  if (count > 1)
    write_text(folder / kHfIndexFile, weight_map_text(map, shards.bytes, shards.parameters));
}

}  // namespace

std::string export_hf(Checkpoint& checkpoint, const ModelOptions& saved, const fs::path& folder,
                      const HfExport& options) {
  const std::optional<std::string> copy = checkpoint.read_file(kHfConfigCopy);
  const std::string what = fmt::format("'{}'", (checkpoint.path() / kHfConfigCopy).string());
  const Json original = copy ? parse_json(*copy, what) : Json();
  if (copy) parse_hf_config(*copy, what);  // refuses what we would not have taken
  ModelOptions model = exported_model(saved, original);
  std::string family = choose_family(model, original);
  WeightReader weights(checkpoint, saved, options.dtype);
  model.dtype = weights.dtype();
  const Json config = config_of(model, family, original, options);

  NewFolder made(folder);
  for (const auto& [name, text] : carried_files(checkpoint))
    if (name != kHfConfigCopy) write_text(made.staging_dir() / name, text);
  export_weights(made.staging_dir(),
                 divided(hf_tensors(model, family), model.dtype, options.max_shard_bytes), weights);
  write_generation_config(made.staging_dir(), config);
  write_text(made.staging_dir() / "config.json", config.dump(2) + "\n");
  made.commit();
  return family;
}

}  // namespace tessera
