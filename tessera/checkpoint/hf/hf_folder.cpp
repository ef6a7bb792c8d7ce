#include "tessera/checkpoint/hf/hf_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/format/mxfp4.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_index.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxIndexBytes = std::size_t{256} << 20;
constexpr std::size_t kNamesShown = 5;

// "a, b, c, d, e and 7 more"
std::string name_some(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kNamesShown);
  std::string text = fmt::format("{}", fmt::join(std::span(names).first(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

WeightMap read_weight_map(const fs::path& index) {
  return parse_weight_map(read_text_file(index, kMaxIndexBytes), "'" + index.string() + "'");
}

// Opens the files that an index names and checks that they hold what it says.
std::vector<SafetensorsFile> open_indexed(const fs::path& index) {
  std::vector<SafetensorsFile> files;
  std::map<std::string, std::size_t> number_of;
  for (const auto& [tensor, name] : read_weight_map(index)) {
    const fs::path path = index.parent_path() / name;
    const auto [file, is_new] = number_of.try_emplace(name, files.size());
    if (is_new) {
      check_input(fs::exists(path), "'{}' says that tensor {} is in '{}', which is missing",
                  index.string(), Quoted{tensor}, path.string());
      files.emplace_back(path);
    }
    check_input(files[file->second].contains(tensor),
                "tensor {} is missing in '{}', where '{}' says that it is", Quoted{tensor},
                path.string(), index.string());
  }
  return files;
}

std::vector<SafetensorsFile> open_all(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
  check_input(!paths.empty(),
              "'{}' has no safetensors file: expected model.safetensors, or "
              "model.safetensors.index.json and the files that it names{}",
              folder.string(),
              fs::exists(folder / "pytorch_model.bin")
                  ? " (pytorch_model.bin cannot be read: save the model as safetensors)"
                  : "");
  std::sort(paths.begin(), paths.end());
  return {paths.begin(), paths.end()};
}

// Of the first layer behind the last one.
bool is_hf_mtp_layer(std::string_view name, const HfModel& model) {
  return hf_family(model.family).mtp_layers &&
         name.starts_with(fmt::format("model.layers.{}.", model.options.num_layers));
}

std::vector<SafetensorsFile> open_weights(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / kHfIndexFile;
  if (!fs::exists(single)) return fs::exists(index) ? open_indexed(index) : open_all(folder);
  std::vector<SafetensorsFile> files;
  files.emplace_back(single);
  return files;
}

}  // namespace

HfFolder::HfFolder(const fs::path& folder)
    : path_(folder), model_(read_hf_config(folder)), files_(open_weights(folder)) {
  drop_absent_mtp();
  Places places = all_places();
  locate_all(places);
  check_unused(places);
}

// transformers keeps the number in config.json, but not the tensors.
void HfFolder::drop_absent_mtp() {
  std::int64_t& layers = model_.options.mtp_num_layers;
  const auto has_one = [&](const SafetensorsFile& file) {
    return std::ranges::any_of(
        file.names(), [&](const std::string& name) { return is_hf_mtp_layer(name, model_); });
  };
  if (layers == 0 || std::ranges::any_of(files_, has_one)) return;
  log_warning(
      "'{}': config.json has num_nextn_predict_layers = {}, but there are no tensors for "
      "multi-token prediction: the model is read without it",
      path_.string(), layers);
  layers = 0;
}

void HfFolder::locate_all(Places& places) {
  std::vector<std::string> missing;
  std::vector<std::pair<const HfTensor*, Place>> copies;
  const std::vector<HfTensor> expected = expected_tensors(places);
  for (const HfTensor& tensor : expected) {
    if (locate_mxfp4(tensor, places)) continue;
    const auto node = places.extract(tensor.name);
    if (!node.empty() && tensor.copy)
      copies.emplace_back(&tensor, node.mapped());
    else if (!node.empty())
      locate_parts(tensor, node.mapped());
    else if (!tensor.copy)
      missing.push_back(tensor.name);
  }
  std::vector<std::string> searched;
  for (const SafetensorsFile& file : files_) searched.push_back("'" + file.what() + "'");
  check_input(missing.empty(), "'{}': {} tensors of this model are missing in {}: {}",
              (path_ / "config.json").string(), missing.size(), name_some(searched),
              name_some(missing));
  for (const auto& [tensor, place] : copies) check_copy(*tensor, place);
}

std::vector<HfTensor> HfFolder::expected_tensors(const Places& places) const {
  if (const auto in_memory = hf_family(model_.family).memory_tensors) {
    std::vector<HfTensor> tensors = in_memory(model_.options);
    const auto stack = std::ranges::find_if(tensors, &HfTensor::stack);
    if (stack != tensors.end() && places.contains(stack->name)) return tensors;
  }
  return hf_tensors(model_.options, model_.family);
}

HfFolder::Places HfFolder::all_places() const {
  Places places;
  std::vector<std::string> skipped;
  for (std::size_t i = 0; i < files_.size(); ++i)
    for (std::string& name : files_[i].names()) {
      if (is_hf_buffer(name)) continue;
      if (model_.options.mtp_num_layers == 0 && is_hf_mtp_layer(name, model_)) {
        skipped.push_back(name);
        continue;
      }
      const std::string full = hf_full_name(name, model_.family);
      const auto [earlier, is_new] = places.try_emplace(full, Place{i, name});
      check_input(is_new, "tensor {} is in '{}' and again in '{}'", Quoted{full},
                  files_[earlier->second.file].what(), files_[i].what());
    }
  if (!skipped.empty())
    log_warning(
        "'{}': {} tensors of a layer for multi-token prediction are skipped, since config.json has "
        "no num_nextn_predict_layers above 0: {}",
        path_.string(), skipped.size(), name_some(skipped));
  return places;
}

void HfFolder::check_shape(const Place& place, const Shape& expected) const {
  const SafetensorsFile& file = files_[place.file];
  const Shape got = file.shape(place.name);
  check_input(got == expected, "'{}', tensor '{}': config.json asks for shape {}, got {}",
              file.what(), place.name, expected.to_string(), got.to_string());
  check_input(is_float(file.dtype(place.name)),
              "'{}', tensor '{}': expected a float type, got dtype {}", file.what(), place.name,
              file.entry(place.name).dtype);
}

// Embedding and output layer are shared, so other values could not be kept. In pieces of bounded
// size.
void HfFolder::check_copy(const HfTensor& tensor, const Place& place) const {
  check_shape(place, tensor.shape);
  constexpr std::int64_t kElements = std::int64_t{1} << 22;
  const std::int64_t width = tensor.shape[1];
  const std::int64_t step = std::max<std::int64_t>(1, kElements / width);
  const SafetensorsFile& file = files_[place.file];
  const DType type = file.dtype(place.name);
  std::vector<std::byte> here, there;
  for (std::int64_t row = 0; row < tensor.shape[0]; row += step) {
    const Shape offset{row, 0}, extent{std::min(step, tensor.shape[0] - row), width};
    const auto view = [&](std::vector<std::byte>& buffer) {
      buffer.resize(static_cast<std::size_t>(extent.numel()) * element_size(type));
      return View(buffer.data(), type, extent);
    };
    file.read_box(place.name, offset, extent, view(here));
    read_box(tensor.parts.front().name, offset, extent, view(there));
    check_input(here == there,
                "'{}', tensor '{}': expected a copy of the model's own, which multi-token "
                "prediction shares, but rows from {} on differ",
                file.what(), place.name, row);
  }
  file.forget();
}

void HfFolder::locate_parts(const HfTensor& tensor, const Place& place) {
  check_shape(place, tensor.shape);
  add_locations(tensor, place, std::nullopt);
}

void HfFolder::add_locations(const HfTensor& tensor, const Place& place,
                             const std::optional<HfScales>& scales) {
  const std::int64_t rows = tensor.matrix_shape()[tensor.transposed ? 1 : 0];
  const std::int64_t first = tensor.expert.value_or(0);
  const std::int64_t count = tensor.stack ? tensor.shape[0] : 1;
  std::int64_t begin = 0;
  for (const HfPart& part : tensor.parts) {
    const Shape shape = tensor.part_shape(part);
    HfLocation& location = locations_[part.name];
    location.shape = part.shape;
    location.accumulator = tensor.accumulator;
    location.of_experts = tensor.of_experts();
    location.slices.resize(static_cast<std::size_t>(location.of_experts ? part.shape[0] : 1));
    HfSlice slice{place.file, place.name,    tensor.transposed,   shape,
                  begin,      tensor.blocks, rows / tensor.blocks};
    slice.scales = scales;
    for (std::int64_t i = 0; i < count; ++i) {
      if (tensor.stack) slice.in_stack = i;
      location.slices[static_cast<std::size_t>(first + i)] = slice;
    }
    begin += shape[0] / tensor.blocks;
  }
}

bool HfFolder::locate_mxfp4(const HfTensor& tensor, Places& places) {
  const std::string blocks = tensor.name + "_blocks", scales = tensor.name + "_scales";
  const bool there = places.contains(blocks) && places.contains(scales);
  if (!model_.mxfp4 || !tensor.stack || !tensor.transposed || !there) return false;
  const std::int64_t in = tensor.shape[1], out = tensor.shape[2];
  check_input(in % kMxfp4Block == 0,
              "tensor {} has blocks of {} numbers, but its rows have {}: config.json is of another "
              "model",
              Quoted{blocks}, kMxfp4Block, in);
  const Place block_place = places.extract(blocks).mapped();
  const Place scale_place = places.extract(scales).mapped();
  check_bytes(block_place, {tensor.shape[0], out, in / kMxfp4Block, kMxfp4BlockBytes});
  check_bytes(scale_place, {tensor.shape[0], out, in / kMxfp4Block});
  HfTensor rows = tensor;
  rows.shape = {tensor.shape[0], out, in};
  rows.transposed = false;
  add_locations(rows, block_place, HfScales{scale_place.file, scale_place.name});
  return true;
}

void HfFolder::check_bytes(const Place& place, const Shape& expected) const {
  const SafetensorsFile& file = files_[place.file];
  const Shape got = file.shape(place.name);
  check_input(got == expected && file.dtype(place.name) == DType::u8,
              "'{}', tensor '{}': config.json asks for bytes of shape {}, got {} {}", file.what(),
              place.name, expected.to_string(), file.entry(place.name).dtype, got.to_string());
}

void HfFolder::check_unused(const Places& places) const {
  const ModelOptions& options = model_.options;
  std::vector<std::string> unexpected;
  for (const auto& [name, place] : places) {
    // A tied output weight is sometimes stored all the same.
    if (options.tie_embeddings && name == hf_family(model_.family).output_name)
      check_shape(place, {options.vocab_size, options.hidden_size});
    else
      unexpected.push_back(
          fmt::format("{} in '{}'", Quoted{place.name}, files_[place.file].what()));
  }
  check_input(unexpected.empty(),
              "{} tensors do not belong to a {} model with the options of config.json: {}",
              unexpected.size(), model_.family, name_some(unexpected));
}

std::vector<std::string> HfFolder::names() const {
  std::vector<std::string> names;
  names.reserve(locations_.size());
  for (const auto& [name, location] : locations_) names.push_back(name);
  return names;
}

const HfLocation& HfFolder::locate(std::string_view name) const {
  const auto found = locations_.find(name);
  check_input(
      found != locations_.end(),
      "the {} checkpoint with '{}' has no parameter '{}': its model and the one being built differ",
      model_.family, files_.front().what(), name);
  return found->second;
}

}  // namespace tessera
