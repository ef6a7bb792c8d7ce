// A checkpoint opened for reading. Its manifest has been verified, and every block of a file is
// compared with its checksum before it is used. Errors name the file, the tensor and the byte.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/checkpoint/format/checkpoint_folder.h"
#include "tessera/checkpoint/format/verified_file.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Whether a run saved checkpoints into this folder.
bool holds_checkpoints(const fs::path& folder);

class Checkpoint {
 public:
  /// The newest checkpoint of a folder with a valid manifest, or that of an iteration. Nothing if
  /// the folder has none yet; InputError if it has some but none, or not the requested one, can be
  /// used. Warns about those that it skips.
  static std::optional<Checkpoint> find(const fs::path& folder,
                                        std::optional<std::int64_t> iteration = std::nullopt,
                                        bool warns = true);
  /// Like `find`, or `path` itself if it is a checkpoint. InputError if there is none.
  static Checkpoint open(const fs::path& path, std::optional<std::int64_t> iteration);
  /// Opens the checkpoint in this folder.
  explicit Checkpoint(const fs::path& path);

  const fs::path& path() const { return path_; }
  const Manifest& manifest() const { return *manifest_; }
  std::int64_t iteration() const { return manifest_->iteration; }
  /// A counter of the state; InputError when it is missing or not a number.
  std::int64_t counter(const std::string& name) const;
  double number(const std::string& name) const;
  /// All options of the run, as YAML.
  const std::string& config() const { return config_; }
  /// "'<path>', tensor 'name'", for messages.
  std::string where(std::string_view tensor) const;

  bool contains(std::string_view tensor) const;
  /// InputError when there is none of that name.
  const TensorRecord& tensor(std::string_view name) const;
  /// Reads the box [offset, offset + extent) into host memory, maybe strided, of shape `extent`;
  /// converts between float types.
  void read_box(std::string_view name, const Shape& offset, const Shape& extent,
                const View& destination);
  /// Reads a whole tensor.
  void read(std::string_view name, const View& destination);
  /// A whole small file of the checkpoint; nothing when it has none of that name.
  std::optional<std::string> read_file(const std::string& name);
  /// Compares every block of every file with its checksum. InputError for the first that differs.
  void verify();

 private:
  Checkpoint(const fs::path& path, Manifest manifest);
  VerifiedFile& file(std::size_t number, const std::string& whose);
  void read_part(const TensorRecord& tensor, const TensorSlice& slice, const Shape& begin,
                 const View& destination, const std::string& whose);

  fs::path path_;
  std::unique_ptr<Manifest> manifest_;  ///< never moves: open files point into it
  std::string config_;
  std::map<std::size_t, VerifiedFile> files_;  ///< opened on demand
};

}  // namespace tessera
