#include "tessera/checkpoint/format/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/format/safetensors_type.h"
#include "tessera/checkpoint/format/tiling.h"

namespace tessera {
namespace {

constexpr const char* kFormat = "tessera-checkpoint";
constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;
constexpr std::size_t kHexDigits = 32;

Json to_json(const Shape& shape) {
  Json dims = Json::array();
  for (const std::int64_t dim : shape.dims()) dims.push_back(dim);
  return dims;
}

Json to_json(const FileRecord& file) {
  std::string blocks;
  for (const Digest& block : file.blocks) blocks += block.to_string();
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"digest", compute_digest(file.blocks).to_string()},
          {"blocks", blocks}};
}

Json to_json(const TensorRecord& tensor) {
  Json slices = Json::array();
  for (const TensorSlice& slice : tensor.slices)
    slices.push_back({{"file", slice.file},
                      {"at", slice.at},
                      {"offset", to_json(slice.offset)},
                      {"extent", to_json(slice.extent)}});
  return {{"dtype", safetensors_name(tensor.dtype)},
          {"shape", to_json(tensor.shape)},
          {"slices", slices}};
}

Json files_and_tensors(const Manifest& manifest) {
  Json files = Json::array();
  for (const FileRecord& file : manifest.files) files.push_back(to_json(file));
  Json tensors = Json::object();
  for (const auto& [name, tensor] : manifest.tensors) tensors[name] = to_json(tensor);
  return {{"files", files}, {"tensors", tensors}};
}

const Json& member(const JsonFields& fields, const char* key, Json::value_t type) {
  const auto found = fields.json().find(key);
  check_input(found != fields.json().end() && found->type() == type, "{}: '{}' must be {}, got {}",
              fields.what(), key, Json(type).type_name(),
              found == fields.json().end() ? "nothing" : found->type_name());
  return *found;
}

const Json& array_of(const JsonFields& fields, const char* key) {
  return member(fields, key, Json::value_t::array);
}

// Tells of a number that is not there by one that cannot be.
std::int64_t needed(const JsonFields& fields, const char* key, std::int64_t high) {
  const std::int64_t value = fields.integer(key, -1, 0, high);
  check_input(value >= 0, "{}: '{}' is missing", fields.what(), key);
  return value;
}

Shape read_shape(const JsonFields& fields, const char* key) {
  const Json& dims = array_of(fields, key);
  check_input(dims.size() <= Shape::kMaxRank, "{}: '{}' has {} dimensions, more than {}",
              fields.what(), key, dims.size(), Shape::kMaxRank);
  std::vector<std::int64_t> values;
  for (const Json& dim : dims) {
    check_input(dim.is_number_unsigned() && dim.get<std::uint64_t>() <= kMaxDimension,
                "{}: '{}' must hold numbers from 0 to 2^40, got {:.40}", fields.what(), key,
                dim.dump());
    values.push_back(dim.get<std::int64_t>());
  }
  return Shape(values);
}

std::vector<Digest> blocks_of(const JsonFields& fields) {
  const std::string text = fields.text("blocks", "");
  std::vector<Digest> blocks(text.size() / kHexDigits);
  bool good = text.size() % kHexDigits == 0;
  for (std::size_t i = 0; good && i < blocks.size(); ++i)
    good = parse_digest(std::string_view(text).substr(i * kHexDigits, kHexDigits), blocks[i]);
  check_input(good, "{}: 'blocks' must be checksums of {} hexadecimal digits each", fields.what(),
              kHexDigits);
  return blocks;
}

// A name that stays inside the checkpoint's folder.
void check_file_name(const std::string& name, const std::string& what) {
  const bool inside = !name.empty() && name.size() < 256 && name.front() != '.' &&
                      name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  check_input(inside, "{}: {} is no name of a file in a checkpoint", what, Quoted{name});
}

FileRecord file_of(const Json& value, const std::string& what) {
  const JsonFields fields(value, what);
  FileRecord file;
  file.name = fields.text("name", "");
  check_file_name(file.name, what);
  file.bytes = static_cast<std::uint64_t>(needed(fields, "bytes", kMaxBytes));
  file.blocks = blocks_of(fields);
  check_input(file.blocks.size() == digest_blocks(file.bytes),
              "{}: {} bytes have {} blocks, but there are {} checksums", what, file.bytes,
              digest_blocks(file.bytes), file.blocks.size());
  check_input(fields.text("digest", "") == compute_digest(file.blocks).to_string(),
              "{}: the checksum of '{}' does not follow from those of its blocks", what, file.name);
  return file;
}

TensorSlice slice_of(const Json& value, const TensorRecord& tensor,
                     const std::vector<FileRecord>& files, const std::string& what) {
  const JsonFields fields(value, what);
  TensorSlice slice;
  slice.file = static_cast<std::size_t>(needed(fields, "file", kMaxBytes));
  check_input(slice.file < files.size(), "{}: file {} of {}", what, slice.file, files.size());
  slice.at = static_cast<std::uint64_t>(needed(fields, "at", kMaxBytes));
  slice.offset = read_shape(fields, "offset");
  slice.extent = read_shape(fields, "extent");
  bool inside =
      slice.offset.rank() == tensor.shape.rank() && slice.extent.rank() == tensor.shape.rank();
  for (int i = 0; inside && i < tensor.shape.rank(); ++i)
    inside = slice.offset[i] + slice.extent[i] <= tensor.shape[i];
  check_input(inside, "{}: a slice of {} at {} leaves the shape {}", what, slice.extent,
              slice.offset, tensor.shape);
  const auto bytes = static_cast<std::uint64_t>(slice.extent.numel()) * element_size(tensor.dtype);
  const std::uint64_t size = files[slice.file].bytes;
  check_input(slice.at <= size && bytes <= size - slice.at,
              "{}: a slice of {} bytes at byte {} leaves '{}', which has {}", what, bytes, slice.at,
              files[slice.file].name, size);
  return slice;
}

TensorRecord tensor_of(const Json& value, const std::vector<FileRecord>& files,
                       const std::string& what) {
  const JsonFields fields(value, what);
  TensorRecord tensor;
  const std::string type = fields.text("dtype", "");
  const SafetensorsType* known = find_safetensors_type(type);
  check_input(known != nullptr && known->dtype, "{}: dtype {} is unknown", what, Quoted{type});
  tensor.dtype = *known->dtype;
  tensor.shape = read_shape(fields, "shape");
  std::int64_t left = std::int64_t{1} << 56;  // so that no product overflows
  for (const std::int64_t dim : tensor.shape.dims()) left /= std::max<std::int64_t>(dim, 1);
  check_input(left > 0, "{}: the shape {} has more than 2^56 elements", what, tensor.shape);
  for (const Json& slice : array_of(fields, "slices"))
    tensor.slices.push_back(slice_of(slice, tensor, files, what));
  return tensor;
}

// Of a part, tensors need not be whole.
void read_files_and_tensors(Manifest& manifest, const JsonFields& fields) {
  for (const Json& file : array_of(fields, "files"))
    manifest.files.push_back(
        file_of(file, fmt::format("{}, file {}", fields.what(), manifest.files.size())));
  for (const auto& [name, tensor] : member(fields, "tensors", Json::value_t::object).items())
    manifest.tensors[name] = tensor_of(tensor, manifest.files,
                                       fmt::format("{}, tensor {}", fields.what(), Quoted{name}));
}

void check_names_differ(const Manifest& manifest, const std::string& what) {
  std::vector<std::string_view> names;
  for (const FileRecord& file : manifest.files) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  check_input(twice == names.end(), "{}: file '{}' is listed twice", what,
              twice == names.end() ? "" : *twice);
}

// {"digest":"<32 digits>",
std::string digest_line(const Digest& digest) {
  return fmt::format("{{\"digest\":\"{}\",\n", digest.to_string());
}

}  // namespace

std::string part_text(const Manifest& part) { return files_and_tensors(part).dump(); }

void add_part(Manifest& manifest, std::string_view part) {
  const Json json = parse_json(part, "a rank's part of a checkpoint");
  Manifest other;
  read_files_and_tensors(other, JsonFields(json, "a rank's part of a checkpoint"));
  const std::size_t first = manifest.files.size();
  manifest.files.insert(manifest.files.end(), other.files.begin(), other.files.end());
  for (auto& [name, tensor] : other.tensors) {
    for (TensorSlice& slice : tensor.slices) slice.file += first;
    const auto [place, fresh] = manifest.tensors.try_emplace(name, tensor);
    if (fresh) continue;
    check(place->second.dtype == tensor.dtype && place->second.shape == tensor.shape,
          "ranks saved '{}' as {} {} and as {} {}", name, to_string(tensor.dtype), tensor.shape,
          to_string(place->second.dtype), place->second.shape);
    place->second.slices.insert(place->second.slices.end(), tensor.slices.begin(),
                                tensor.slices.end());
  }
}

std::string manifest_text(const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.tensors) check_tiling(tensor, name);
  Json json = files_and_tensors(manifest);
  json["format"] = kFormat;
  json["version"] = kManifestVersion;
  json["block_bytes"] = kDigestBlock;
  json["iteration"] = manifest.iteration;
  json["state"] = parse_json(manifest.state, "the state");
  json["layout"] = parse_json(manifest.layout, "the layout");
  const std::string body = json.dump().substr(1) + "\n";  // without the brace that begins it
  return digest_line(compute_digest(body)) + body;
}

bool is_whole_manifest(std::string_view text) {
  const std::size_t first_line = digest_line({}).size();
  return text.size() > first_line &&
         text.substr(0, first_line) == digest_line(compute_digest(text.substr(first_line)));
}

Manifest parse_manifest(std::string_view text, const std::string& what) {
  check_input(is_whole_manifest(text),
              "{}: its checksum does not fit its text: the file is damaged or was cut short", what);
  const Json json = parse_json(text, what);
  const JsonFields fields(json, what);
  check_input(fields.text("format", "") == kFormat, "{}: this is no manifest of a checkpoint",
              what);
  const std::int64_t version = needed(fields, "version", kMaxBytes);
  check_input(version <= kManifestVersion,
              "{}: this is version {} of the format, and this program supports version {}: use a "
              "newer one",
              what, version, kManifestVersion);
  check_input(needed(fields, "block_bytes", kMaxBytes) == kDigestBlock,
              "{}: checksums must be of blocks of {} bytes", what, kDigestBlock);
  Manifest manifest;
  manifest.iteration = needed(fields, "iteration", kMaxBytes);
  manifest.state = member(fields, "state", Json::value_t::object).dump();
  manifest.layout = member(fields, "layout", Json::value_t::object).dump();
  read_files_and_tensors(manifest, fields);
  check_names_differ(manifest, what);
  for (const auto& [name, tensor] : manifest.tensors)
    check_tiling(tensor, fmt::format("{}, tensor {}", what, Quoted{name}));
  return manifest;
}

}  // namespace tessera
