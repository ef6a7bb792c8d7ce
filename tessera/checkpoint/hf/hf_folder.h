// A Hugging Face model folder opened for reading: config.json and the safetensors files, checked as
// a whole when it is opened (every tensor of the model is there, in one place, with the right
// shape, and nothing else is). Parameters are then read under our names, whole or in boxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/checkpoint/format/safetensors_reader.h"
#include "tessera/checkpoint/hf/hf_config.h"
#include "tessera/checkpoint/hf/hf_names.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// The scales of a tensor whose bytes are blocks of MXFP4 (format/mxfp4.h).
struct HfScales {
  std::size_t file = 0;
  std::string tensor;
};

/// Where a matrix or vector of ours lies.
struct HfSlice {
  std::size_t file = 0;     ///< index into HfFolder::files
  std::string tensor;       ///< its name in that file
  bool transposed = false;  ///< the file has [in, out]
  Shape shape;              ///< ours: [out, in] or [out]
  // Along `out` the file's tensor has `blocks` blocks of `block_rows` rows. Each has shape[0] /
  // blocks rows of ours, from `out_begin` on.
  std::int64_t out_begin = 0;
  std::int64_t blocks = 1;
  std::int64_t block_rows = 0;
  /// The file's tensor is a stack [experts, ...], of which the above is said of one.
  std::optional<std::int64_t> in_stack = {};
  /// The tensor has the blocks of MXFP4, and these are their scales.
  std::optional<HfScales> scales = {};
};

/// Where one of our parameters lies.
struct HfLocation {
  Shape shape;  ///< ours: [out, in] or [out], maybe with experts before these
  /// The whole parameter, or its matrix for each expert.
  std::vector<HfSlice> slices;
  bool accumulator = false;  ///< see HfTensor
  bool of_experts = false;
};

class HfFolder {
 public:
  /// InputError, with the file and the tensor, for everything that does not fit together.
  explicit HfFolder(const fs::path& folder);

  const fs::path& path() const { return path_; }
  const HfModel& model() const { return model_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Our parameter names, sorted.
  std::vector<std::string> names() const;
  const HfLocation& locate(std::string_view name) const;
  /// The type of the numbers of a slice.
  DType stored_type(const HfSlice& slice) const;
  /// Reads a whole parameter into host memory of any float type.
  void read(std::string_view name, const View& destination) const;
  /// Reads the box [offset, offset + extent) of a parameter; the destination has shape `extent`.
  void read_box(std::string_view name, const Shape& offset, const Shape& extent,
                const View& destination) const;

 private:
  // Where a tensor of the checkpoint lies, by its full name.
  struct Place {
    std::size_t file;
    std::string name;  // in the file
  };
  using Places = std::map<std::string, Place>;

  // Warns of tensors that are skipped.
  Places all_places() const;
  // Of the form that the files are in.
  std::vector<HfTensor> expected_tensors(const Places& places) const;
  void drop_absent_mtp();
  void locate_all(Places& places);
  void locate_parts(const HfTensor& tensor, const Place& place);
  void check_copy(const HfTensor& tensor, const Place& place) const;
  void add_locations(const HfTensor& tensor, const Place& place,
                     const std::optional<HfScales>& scales);
  // Takes the two tensors of one in MXFP4 out of `places`; false if they are not there.
  bool locate_mxfp4(const HfTensor& tensor, Places& places);
  void read_slice(const HfSlice& slice, const Shape& offset, const Shape& extent,
                  const View& destination) const;
  void read_rows(const HfSlice& slice, Shape offset, Shape extent, const View& destination) const;
  void read_mxfp4(const HfSlice& slice, const Shape& offset, const Shape& extent,
                  const View& destination) const;
  void check_shape(const Place& place, const Shape& expected) const;
  void check_bytes(const Place& place, const Shape& expected) const;
  void check_unused(const Places& places) const;

  fs::path path_;
  HfModel model_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, HfLocation, std::less<>> locations_;
};

}  // namespace tessera
