// Reads safetensors files. The file is mapped, its header is checked in full when it is opened
// (lengths, types, offsets without holes or overlaps, exact size), and tensors are read from the
// map. A damaged or hostile file is an InputError that names the file, the tensor and the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/tensor/view.h"

namespace tessera {

struct SafetensorsEntry {
  std::string dtype;  ///< as the file says it: "BF16"
  std::vector<std::int64_t> shape;
  std::size_t offset = 0;  ///< of the first byte, from the start of the file
  std::span<const std::byte> data;
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);
  /// Over bytes that outlive this object; `what` stands for the file's name in messages.
  SafetensorsFile(std::span<const std::byte> bytes, std::string what);

  /// The file's name, for messages.
  const std::string& what() const { return what_; }
  /// Sorted.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Any tensor, also one that cannot be computed with. InputError when there is none of that name.
  const SafetensorsEntry& entry(std::string_view name) const;

  /// InputError for more dimensions than a Shape holds.
  Shape shape(std::string_view name) const;
  /// InputError for a type that we cannot compute with (F8_E4M3, BOOL, ...).
  DType dtype(std::string_view name) const;
  /// The tensor in the map, without a copy. InputError when the file did not align it for its
  /// dtype, which the format allows: `read` copes with that.
  ConstView view(std::string_view name) const;
  /// Copies a tensor into host memory, converting between float types. Shapes must be equal.
  void read(std::string_view name, const View& destination) const;
  /// Copies the box [offset, offset + extent); the destination, maybe strided, has shape `extent`.
  void read_box(std::string_view name, const Shape& offset, const Shape& extent,
                const View& destination) const;
  /// Gives back the memory that reading has filled.
  void forget() const { map_.forget(); }

 private:
  void parse(std::span<const std::byte> bytes);
  // May be unaligned for its dtype.
  ConstView raw_view(std::string_view name) const;
  // "'file', tensor 'name' (at byte 64)", which messages begin with.
  std::string where(std::string_view name) const;

  std::string what_;
  MappedFile map_;
  std::map<std::string, SafetensorsEntry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tessera
