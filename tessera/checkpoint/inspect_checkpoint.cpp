#include "tessera/checkpoint/inspect_checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/json_fields.h"

namespace tessera {
namespace {

std::uint64_t bytes_of(const TensorRecord& tensor) {
  return static_cast<std::uint64_t>(tensor.shape.numel()) * element_size(tensor.dtype);
}

std::string line(std::string_view title, const std::string& text) {
  return fmt::format("{:<12} {}\n", title, text);
}

// {"ranks": 2, "tensor": 2} as "ranks 2, tensor 2".
std::string list_fields(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  return text.empty() ? "nothing" : text;
}

std::string consumed(const Checkpoint& checkpoint, const CheckpointView& view) {
  const Json state = parse_json(checkpoint.manifest().state, "state");
  const auto found = state.find("consumed_samples");
  if (found == state.end() || !found->is_number_unsigned())
    return "unknown: its state does not say";
  const auto samples = found->get<std::uint64_t>();
  if (view.seq_length == 0) return fmt::format("{} samples", samples);
  return fmt::format("{} samples of {} tokens, {} tokens", samples, view.seq_length,
                     samples * static_cast<std::uint64_t>(view.seq_length));
}

struct Kind {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::set<std::string_view> dtypes;
};

// Weights first.
std::string kinds_text(const Checkpoint& checkpoint) {
  std::map<std::string, Kind> kinds;
  for (const auto& [name, tensor] : checkpoint.manifest().tensors) {
    const std::string kind = kind_of(checkpoint, name);
    Kind& sum = kinds[kind == "weights" ? "" : kind];
    ++sum.tensors;
    sum.bytes += bytes_of(tensor);
    sum.dtypes.insert(to_string(tensor.dtype));
  }
  std::string text;
  for (const auto& [name, kind] : kinds) {
    std::string dtypes;
    for (const std::string_view dtype : kind.dtypes)
      dtypes += fmt::format("{}{}", dtypes.empty() ? "" : "+", dtype);
    text += line(name.empty() ? "weights" : name,
                 fmt::format("{} tensors, {}, {} bytes", kind.tensors, dtypes, kind.bytes));
  }
  return text;
}

std::string files_text(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const FileRecord& file : manifest.files) bytes += file.bytes;
  std::string text = line("files", fmt::format("{}, {} bytes", manifest.files.size(), bytes));
  for (const FileRecord& file : manifest.files)
    text += fmt::format("  {:<30} {:>14} bytes  {}\n", file.name, file.bytes,
                        compute_digest(file.blocks).to_string());
  return text;
}

std::string tensors_text(const Manifest& manifest) {
  std::string text = "tensors\n";
  for (const auto& [name, tensor] : manifest.tensors) {
    text += fmt::format("  {} {} {}\n", Quoted{name}, to_string(tensor.dtype),
                        tensor.shape.to_string());
    for (const TensorSlice& slice : tensor.slices)
      text += fmt::format("    {} at {}: '{}', byte {}\n", slice.extent.to_string(),
                          slice.offset.to_string(), manifest.files[slice.file].name, slice.at);
  }
  return text;
}

}  // namespace

fs::path checkpoint_path(const fs::path& path, std::optional<std::int64_t> iteration) {
  check_input(fs::is_directory(path), "'{}': there is no such folder", path.string());
  const std::vector<std::int64_t> iterations = iterations_in(path);
  if (iterations.empty()) {
    const bool one = fs::exists(path / kManifestFile) || fs::exists(path / kConfigFile);
    check_input(one, "'{}': there is no checkpoint in this folder", path.string());
    check_input(!iteration, "'{}' is one checkpoint: drop --ckpt-step", path.string());
    return path;
  }
  const std::int64_t wanted = iteration.value_or(iterations.back());
  check_input(std::find(iterations.begin(), iterations.end(), wanted) != iterations.end(),
              "'{}' has no checkpoint of iteration {}", path.string(), wanted);
  return iteration_folder(path, wanted);
}

// A state's tensor has the weight's name behind its own.
std::string kind_of(const Checkpoint& checkpoint, const std::string& tensor) {
  const std::size_t dot = tensor.find('.');
  if (dot == std::string::npos || !checkpoint.contains(tensor.substr(dot + 1))) return "weights";
  return tensor.substr(0, dot);
}

std::string checkpoint_text(const Checkpoint& checkpoint, const CheckpointView& view) {
  const Manifest& manifest = checkpoint.manifest();
  std::string text = line("checkpoint", checkpoint.path().string());
  text += line("iteration", std::to_string(manifest.iteration));
  text += line("consumed", consumed(checkpoint, view));
  text += line("saved by", list_fields(parse_json(manifest.layout, "layout")));
  text += line("state", list_fields(parse_json(manifest.state, "state")));
  text += kinds_text(checkpoint);
  text += files_text(manifest);
  if (view.tensors) text += tensors_text(manifest);
  return text;
}

}  // namespace tessera
