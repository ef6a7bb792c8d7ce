// Writes safetensors files as a stream: all tensors are declared first, the header goes out, then
// the data follow tensor by tensor, so that nothing has to be in memory twice.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/format/digested_file.h"
#include "tessera/tensor/view.h"

namespace tessera {

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsDeclaration {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

class SafetensorsWriter {
 public:
  /// Larger element types come first, so that all are aligned; then by name, or as they are given.
  enum class Order { by_name, given };

  /// Writes the header. `metadata` gets "format": "pt" unless it has a format, since readers ask
  /// for one. The data begin at a multiple of 64 bytes. To replace a file safely, give a temporary
  /// name and rename it after `close`.
  SafetensorsWriter(const fs::path& path, std::vector<SafetensorsDeclaration> tensors,
                    SafetensorsMetadata metadata = {}, Order order = Order::by_name);

  /// The order in which `append` expects the tensors.
  const std::vector<SafetensorsDeclaration>& order() const { return order_; }
  /// Where in the file the next one will be.
  std::uint64_t position() const { return file_.bytes(); }
  /// Writes the next tensor of the order, from host memory. A strided view is gathered through a
  /// small buffer.
  void append(const ConstView& view);
  /// Checks that every tensor came, and fsyncs.
  FileRecord close();

 private:
  void write_elements(const ConstView& view);

  std::string what_;
  std::vector<SafetensorsDeclaration> order_;
  std::size_t next_ = 0;  // index into order_
  std::vector<std::byte> buffer_;
  DigestedFile file_;
};

struct NamedView {
  std::string name;
  ConstView view;
};

/// Writes all tensors to a new file at `path` and fsyncs it.
void write_safetensors(const fs::path& path, std::span<const NamedView> tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace tessera
