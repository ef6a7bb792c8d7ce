#include "tessera/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr const char* kLatest = "latest_checkpointed_iteration.txt";

fs::path iteration_folder(const fs::path& folder, std::int64_t iteration) {
  return folder / fmt::format("iter_{:07}", iteration);
}

// The iterations whose checkpoints lie in the folder, finished by their names.
std::vector<std::int64_t> iterations_in(const fs::path& folder) {
  constexpr std::string_view kPrefix = "iter_";
  std::vector<std::int64_t> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::int64_t iteration = 0;
    const char* end = name.data() + name.size();
    if (!name.starts_with(kPrefix)) continue;
    const auto [stopped, error] = std::from_chars(name.data() + kPrefix.size(), end, iteration);
    if (error == std::errc() && stopped == end) found.push_back(iteration);
  }
  return found;
}

void rename_folder(const fs::path& from, const fs::path& to, unsigned flags = 0) {
  check(::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0,
        "cannot rename '{}' to '{}': {}", from.string(), to.string(), std::strerror(errno));
}

// Puts a finished folder in its place. One that is there already is exchanged in one step where the
// file system can do that (NFS cannot), then removed.
void move_into_place(const fs::path& from, const fs::path& to) {
  fs::path old = from;
  if (fs::exists(to) &&
      ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    old += ".old";
    fs::remove_all(old);
    rename_folder(to, old);
    rename_folder(from, to);
  } else if (fs::exists(from) && !fs::exists(to)) {
    rename_folder(from, to);
  }
  sync_path(to.parent_path());
  fs::remove_all(old);
}

void write_files(const fs::path& folder, const CheckpointContents& contents) {
  write_safetensors(folder / "model.safetensors", contents.model);
  if (!contents.optimizer.empty())
    write_safetensors(folder / "optimizer.safetensors", contents.optimizer);
  write_file_atomically(folder / "config.yaml", contents.config);
  write_file_atomically(folder / "state.json", contents.state.dump(2) + "\n");
  sync_path(folder);
}

std::int64_t read_iteration(const fs::path& path) {
  std::string text = read_text_file(path, 64);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::int64_t iteration = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
  check_input(error == std::errc() && end == text.data() + text.size() && iteration >= 0,
              "'{}' must hold the number of an iteration, got '{}'", path.string(), text);
  return iteration;
}

}  // namespace

void save_checkpoint(const fs::path& folder, const CheckpointContents& contents) {
  make_folders(folder);
  const fs::path place = iteration_folder(folder, contents.iteration);
  fs::path temporary = place;
  temporary += ".tmp";
  fs::remove_all(temporary);  // of a save that was cut off
  fs::create_directory(temporary);
  try {
    write_files(temporary, contents);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);  // on a full disk, room for the next try
    throw;
  }
  move_into_place(temporary, place);
  write_file_atomically(folder / kLatest, std::to_string(contents.iteration) + "\n");
}

bool holds_checkpoints(const fs::path& folder) {
  return fs::exists(folder / kLatest) || !iterations_in(folder).empty();
}

std::optional<Checkpoint> Checkpoint::latest(const fs::path& folder) {
  check_input(!fs::exists(folder / "state.json"),
              "'{}' is one checkpoint: give the folder that it lies in", folder.string());
  if (fs::exists(folder / kLatest)) {
    const std::int64_t iteration = read_iteration(folder / kLatest);
    check_input(
        fs::is_directory(iteration_folder(folder, iteration)),
        "'{}' names iteration {}, but there is no '{}': write the number of a checkpoint that "
        "is there into the file",
        (folder / kLatest).string(), iteration, iteration_folder(folder, iteration).string());
    return Checkpoint(folder, iteration);
  }
  // A run that was killed right after its first save has one, whole by its name, and no file.
  const std::vector<std::int64_t> found = iterations_in(folder);
  check_input(found.size() <= 1,
              "'{}' holds {} checkpoints, but no file '{}': write the number of the one to load "
              "into that file",
              folder.string(), found.size(), kLatest);
  if (found.empty()) return std::nullopt;
  return Checkpoint(folder, found.front());
}

Checkpoint::Checkpoint(const fs::path& folder, std::int64_t iteration)
    : iteration_(iteration),
      path_(iteration_folder(folder, iteration)),
      state_(parse_json(read_text_file(path_ / "state.json"), (path_ / "state.json").string())),
      config_(read_text_file(path_ / "config.yaml")),
      model_(path_ / "model.safetensors") {
  check_input(state_.is_object(), "'{}' must hold a JSON object", (path_ / "state.json").string());
  if (fs::exists(path_ / "optimizer.safetensors"))
    optimizer_.emplace(path_ / "optimizer.safetensors");
}

std::int64_t Checkpoint::counter(const std::string& name) const {
  const auto found = state_.find(name);
  check_input(found != state_.end() && found->is_number_integer(), "'{}' lacks the number '{}'",
              (path_ / "state.json").string(), name);
  return found->get<std::int64_t>();
}

double Checkpoint::number(const std::string& name) const {
  const auto found = state_.find(name);
  check_input(found != state_.end() && found->is_number(), "'{}' lacks the number '{}'",
              (path_ / "state.json").string(), name);
  return found->get<double>();
}

}  // namespace tessera
