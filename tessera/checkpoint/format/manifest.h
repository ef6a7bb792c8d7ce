// The manifest of a checkpoint: its files with their checksums, every tensor with its global shape
// and the slices it was saved in, and the state of the run. It is the last file to be written and
// contains a checksum of itself; files that it does not list are not read.
//
// It is JSON. The first line, {"digest":"...", holds the checksum of all bytes behind that line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/checkpoint/format/digest.h"

namespace tessera {

constexpr std::int64_t kManifestVersion = 1;

struct FileRecord {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<Digest> blocks;
};

/// A box of a tensor in one of the files, row-major.
struct TensorSlice {
  std::size_t file = 0;  ///< number among the manifest's files
  std::uint64_t at = 0;  ///< first byte in the file
  Shape offset;          ///< in the tensor
  Shape extent;
};

struct TensorRecord {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<TensorSlice> slices;  ///< without holes or overlaps
};

using TensorRecords = std::map<std::string, TensorRecord, std::less<>>;

struct Manifest {
  std::int64_t iteration = 0;
  std::string state = "{}";   ///< counters of the run, an object of JSON
  std::string layout = "{}";  ///< of the ranks that saved it, another one, for people
  std::vector<FileRecord> files;
  TensorRecords tensors;
};

/// Files and tensors that one rank wrote, as text that travels.
std::string part_text(const Manifest& part);
/// Adds the part of another rank.
void add_part(Manifest& manifest, std::string_view part);

std::string manifest_text(const Manifest& manifest);
/// Whether the text fits the checksum in its first line.
bool is_whole_manifest(std::string_view text);
/// InputError, with `what` (the file) and the reason, for a text that is damaged or makes no sense.
Manifest parse_manifest(std::string_view text, const std::string& what);

}  // namespace tessera
