#include "tessera/checkpoint/checkpoint.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/json_fields.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxManifest = std::size_t{1} << 30;
constexpr std::size_t kMaxSmallFile = std::size_t{1} << 28;
constexpr std::size_t kOpenFiles = 16;                      // each with a block in memory
constexpr std::int64_t kRowBuffer = std::int64_t{1} << 22;  // bytes

bool has_manifest(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / kManifestFile, error);
}

std::string manifest_text_of(const fs::path& path) {
  return read_text_file(path / kManifestFile, kMaxManifest);
}

Manifest manifest_of(const fs::path& path, std::string_view text) {
  return parse_manifest(text, fmt::format("'{}'", (path / kManifestFile).string()));
}

std::string list_iterations(const std::vector<std::int64_t>& iterations) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = iterations.size(); i-- > 0 && iterations.size() - i <= kShown;)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", iterations[i]);
  return text + (iterations.size() > kShown ? ", ..." : "");
}

// Element strides of a contiguous tensor.
std::int64_t row_stride(const Shape& shape, int dimension) {
  std::int64_t stride = 1;
  for (int i = dimension + 1; i < shape.rank(); ++i) stride *= shape[i];
  return stride;
}

}  // namespace

bool holds_checkpoints(const fs::path& folder) { return !iterations_in(folder).empty(); }

std::optional<Checkpoint> Checkpoint::find(const fs::path& folder,
                                           std::optional<std::int64_t> wanted, bool warns) {
  check_input(!has_manifest(folder), "'{}' is one checkpoint: give the folder that it lies in",
              folder.string());
  const std::vector<std::int64_t> iterations = iterations_in(folder);
  if (wanted) {
    check_input(std::find(iterations.begin(), iterations.end(), *wanted) != iterations.end(),
                "'{}' has no checkpoint of iteration {}{}", folder.string(), *wanted,
                iterations.empty() ? "" : ": it has " + list_iterations(iterations));
    return Checkpoint(iteration_folder(folder, *wanted));
  }
  std::string why;
  for (std::size_t i = iterations.size(); i-- > 0;) {
    const fs::path path = iteration_folder(folder, iterations[i]);
    // What a crash or a bad disk may have left; a file that cannot be read is another matter.
    std::string problem =
        fmt::format("'{}' has no {}: it is no whole checkpoint", path.string(), kManifestFile);
    if (has_manifest(path)) {
      const std::string text = manifest_text_of(path);
      if (is_whole_manifest(text)) return Checkpoint(path, manifest_of(path, text));
      problem = fmt::format("'{}' is damaged or was cut short", (path / kManifestFile).string());
    }
    if (why.empty()) why = problem;
    if (warns) log_warning("{}; looking for an older checkpoint", problem);
  }
  check_input(iterations.empty(), "'{}': none of its {} checkpoints can be used. The newest: {}",
              folder.string(), iterations.size(), why);
  return std::nullopt;
}

Checkpoint Checkpoint::open(const fs::path& path, std::optional<std::int64_t> iteration) {
  check_input(fs::is_directory(path), "'{}': there is no such folder", path.string());
  if (has_manifest(path)) {
    check_input(!iteration, "'{}' is one checkpoint: drop --ckpt-step", path.string());
    return Checkpoint(path);
  }
  std::optional<Checkpoint> found = find(path, iteration);
  check_input(found.has_value(), "'{}': there is no checkpoint in this folder", path.string());
  return std::move(*found);
}

Checkpoint::Checkpoint(const fs::path& path)
    : Checkpoint(path, manifest_of(path, manifest_text_of(path))) {}

Checkpoint::Checkpoint(const fs::path& path, Manifest manifest)
    : path_(path), manifest_(std::make_unique<Manifest>(std::move(manifest))) {
  const std::string name = path.filename().string();
  check_input(iteration_folder("", iteration()).filename() == name || !name.starts_with("iter_"),
              "'{}' holds the checkpoint of iteration {}", path.string(), iteration());
  std::optional<std::string> config = read_file(kConfigFile);
  check_input(config.has_value(), "'{}' has no {}", path.string(), kConfigFile);
  config_ = std::move(*config);
}

std::int64_t Checkpoint::counter(const std::string& name) const {
  const Json state = parse_json(manifest_->state, path_.string());
  const auto found = state.find(name);
  check_input(found != state.end() && found->is_number_integer(),
              "'{}': its state has no whole number '{}'", path_.string(), name);
  return found->get<std::int64_t>();
}

double Checkpoint::number(const std::string& name) const {
  const Json state = parse_json(manifest_->state, path_.string());
  const auto found = state.find(name);
  check_input(found != state.end() && found->is_number(), "'{}': its state has no number '{}'",
              path_.string(), name);
  return found->get<double>();
}

std::string Checkpoint::where(std::string_view tensor) const {
  return fmt::format("'{}', tensor {}", path_.string(), Quoted{tensor});
}

bool Checkpoint::contains(std::string_view tensor) const {
  return manifest_->tensors.find(tensor) != manifest_->tensors.end();
}

const TensorRecord& Checkpoint::tensor(std::string_view name) const {
  const auto found = manifest_->tensors.find(name);
  check_input(found != manifest_->tensors.end(), "'{}' has no tensor {}", path_.string(),
              Quoted{name});
  return found->second;
}

VerifiedFile& Checkpoint::file(std::size_t number, const std::string& whose) {
  auto found = files_.find(number);
  if (found == files_.end()) {
    if (files_.size() >= kOpenFiles) files_.clear();
    found = files_.emplace(number, VerifiedFile(path_, manifest_->files[number], whose)).first;
  }
  return found->second;
}

void Checkpoint::read(std::string_view name, const View& destination) {
  const Shape& shape = tensor(name).shape;
  read_box(name, zeros_like(shape), shape, destination);
}

void Checkpoint::read_box(std::string_view name, const Shape& offset, const Shape& extent,
                          const View& destination) {
  const TensorRecord& record = tensor(name);
  check(offset.rank() == record.shape.rank() && destination.shape() == extent,
        "{}: box at {} of {} read into {}, from shape {}", where(name), offset, extent,
        destination.to_string(), record.shape);
  check_input(record.dtype == destination.dtype() ||
                  (is_float(record.dtype) && is_float(destination.dtype())),
              "{}: {} cannot be read as {}", where(name), to_string(record.dtype),
              to_string(destination.dtype()));
  const std::string whose = fmt::format("tensor {}", Quoted{name});
  for (const TensorSlice& slice : record.slices) {
    Shape begin = offset;  // of what both have, in the tensor
    View part = destination;
    bool any = true;
    for (int i = 0; any && i < offset.rank(); ++i) {
      begin[i] = std::max(offset[i], slice.offset[i]);
      const std::int64_t end = std::min(offset[i] + extent[i], slice.offset[i] + slice.extent[i]);
      any = end > begin[i];
      if (any) part = part.slice(i, begin[i] - offset[i], end - begin[i]);
    }
    if (any) read_part(record, slice, begin, part, whose);
  }
}

// Rows that lie behind each other in the file come in one piece, through a buffer of bounded size.
void Checkpoint::read_part(const TensorRecord& tensor, const TensorSlice& slice, const Shape& begin,
                           const View& destination, const std::string& whose) {
  const auto size = static_cast<std::int64_t>(element_size(tensor.dtype));
  if (destination.rank() > 2) {  // plane by plane
    for (std::int64_t i = 0; i < destination.dim(0); ++i) {
      Shape at = begin;
      at[0] += i;
      TensorSlice plane = slice;
      plane.at += static_cast<std::uint64_t>((at[0] - slice.offset[0]) *
                                             row_stride(slice.extent, 0) * size);
      plane.offset = Shape(slice.offset.dims().subspan(1));
      plane.extent = Shape(slice.extent.dims().subspan(1));
      const View part = destination.slice(0, i, 1);
      read_part(tensor, plane, Shape(begin.dims().subspan(1)),
                {part.raw(), part.dtype(), Shape(part.shape().dims().subspan(1)),
                 Shape(part.strides().dims().subspan(1))},
                whose);
    }
    return;
  }
  const bool matrix = destination.rank() == 2;
  const std::int64_t rows = matrix ? destination.dim(0) : 1;
  const std::int64_t columns = destination.rank() == 0 ? 1 : destination.dim(-1);
  const std::int64_t stride = destination.rank() == 0 ? 1 : slice.extent[-1];
  const std::int64_t column = destination.rank() == 0 ? 0 : begin[-1] - slice.offset[-1];
  const std::int64_t row = matrix ? begin[0] - slice.offset[0] : 0;
  const std::int64_t together =
      columns == stride ? std::max<std::int64_t>(1, kRowBuffer / (columns * size)) : 1;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min(together, rows) * columns * size));
  for (std::int64_t r = 0; r < rows; r += together) {
    const std::int64_t count = std::min(together, rows - r);
    const std::span<std::byte> bytes(buffer.data(),
                                     static_cast<std::size_t>(count * columns * size));
    file(slice.file, whose)
        .read(slice.at + static_cast<std::uint64_t>(((row + r) * stride + column) * size), bytes,
              whose);
    const View to = matrix ? destination.slice(0, r, count) : destination;
    convert_into(to, ConstView(bytes.data(), tensor.dtype, to.shape()));
  }
}

std::optional<std::string> Checkpoint::read_file(const std::string& name) {
  for (std::size_t i = 0; i < manifest_->files.size(); ++i) {
    const FileRecord& record = manifest_->files[i];
    if (record.name != name) continue;
    check_input(record.bytes <= kMaxSmallFile, "'{}' has {} bytes: too many for such a file",
                (path_ / name).string(), record.bytes);
    std::string text(static_cast<std::size_t>(record.bytes), '\0');
    file(i, "the file").read(0, std::as_writable_bytes(std::span(text)), "the file");
    return text;
  }
  return std::nullopt;
}

void Checkpoint::verify() {
  for (std::size_t i = 0; i < manifest_->files.size(); ++i) {
    VerifiedFile each(path_, manifest_->files[i], "the file");
    each.read_all();
  }
}

}  // namespace tessera
