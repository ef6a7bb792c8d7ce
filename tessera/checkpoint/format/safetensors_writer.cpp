#include "tessera/checkpoint/format/safetensors_writer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/safetensors_type.h"

namespace tessera {
namespace {

constexpr std::size_t kDataAlignment = 64;
constexpr std::int64_t kGatherBytes = std::int64_t{1} << 20;

void sort(std::vector<SafetensorsDeclaration>& tensors, SafetensorsWriter::Order order) {
  const bool by_name = order == SafetensorsWriter::Order::by_name;
  std::stable_sort(tensors.begin(), tensors.end(), [&](const auto& a, const auto& b) {
    const std::size_t a_size = element_size(a.dtype);
    const std::size_t b_size = element_size(b.dtype);
    return a_size != b_size ? a_size > b_size : by_name && a.name < b.name;
  });
}

void check_names(const std::vector<SafetensorsDeclaration>& tensors, const std::string& what) {
  std::vector<std::string_view> names;
  for (const SafetensorsDeclaration& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail("'{}': tensor '{}' is declared twice", what, *twice);
  check(!std::binary_search(names.begin(), names.end(), "__metadata__"),
        "'{}': no tensor can be called __metadata__", what);
}

// The header with its 8-byte length in front, padded so that the data after it are aligned.
std::string make_header(const std::vector<SafetensorsDeclaration>& order,
                        const SafetensorsMetadata& metadata, const std::string& what) {
  std::string text = "{\"__metadata__\":" + Json(metadata).dump();
  std::size_t begin = 0;
  for (const SafetensorsDeclaration& tensor : order) {
    const std::size_t end =
        begin + static_cast<std::size_t>(tensor.shape.numel()) * element_size(tensor.dtype);
    text += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        Json(tensor.name).dump(), safetensors_name(tensor.dtype),
                        tensor.shape.to_string(), begin, end);
    begin = end;
  }
  text += '}';
  const std::size_t used = (sizeof(std::uint64_t) + text.size()) % kDataAlignment;
  text.append((kDataAlignment - used) % kDataAlignment, ' ');
  check(text.size() <= kMaxSafetensorsHeader,
        "'{}': a header of {} bytes, more than the {} readers accept", what, text.size(),
        kMaxSafetensorsHeader);
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

// [1, a, b] seen as [a, b].
ConstView without_first_dimension(const ConstView& view) {
  return {view.raw(), view.dtype(), Shape(view.shape().dims().subspan(1)),
          Shape(view.strides().dims().subspan(1))};
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const fs::path& path,
                                     std::vector<SafetensorsDeclaration> tensors,
                                     SafetensorsMetadata metadata, Order order)
    : what_(path.string()), order_(std::move(tensors)), file_(path) {
  check_names(order_, what_);
  sort(order_, order);
  metadata.try_emplace("format", "pt");
  const std::string header = make_header(order_, metadata, what_);
  file_.write(header.data(), header.size());
}

void SafetensorsWriter::append(const ConstView& view) {
  check(next_ < order_.size(), "'{}': all {} declared tensors were written already", what_,
        order_.size());
  const SafetensorsDeclaration& expected = order_[next_++];
  check(view.dtype() == expected.dtype && view.shape() == expected.shape,
        "'{}': tensor '{}' was declared as {} {}, got {}", what_, expected.name,
        to_string(expected.dtype), expected.shape.to_string(), view.to_string());
  if (view.numel() > 0) write_elements(view);
}

void SafetensorsWriter::write_elements(const ConstView& view) {
  if (view.is_contiguous()) {
    file_.write(view.raw(), view.bytes());
    return;
  }
  const std::int64_t row_bytes = static_cast<std::int64_t>(view.bytes()) / view.dim(0);
  if (row_bytes > kGatherBytes) {
    for (std::int64_t i = 0; i < view.dim(0); ++i)
      write_elements(without_first_dimension(view.slice(0, i, 1)));
    return;
  }
  const std::int64_t rows = kGatherBytes / row_bytes;
  buffer_.resize(kGatherBytes);
  for (std::int64_t begin = 0; begin < view.dim(0); begin += rows) {
    const ConstView part = view.slice(0, begin, std::min(rows, view.dim(0) - begin));
    convert_into(View(buffer_.data(), part.dtype(), part.shape()), part);
    file_.write(buffer_.data(), part.bytes());
  }
}

FileRecord SafetensorsWriter::close() {
  check(next_ == order_.size(), "'{}': {} of {} tensors were written before closing", what_, next_,
        order_.size());
  return file_.close();
}

void write_safetensors(const fs::path& path, std::span<const NamedView> tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<SafetensorsDeclaration> declared;
  std::map<std::string_view, const NamedView*> by_name;
  for (const NamedView& tensor : tensors) {
    declared.push_back({tensor.name, tensor.view.dtype(), tensor.view.shape()});
    by_name[tensor.name] = &tensor;
  }
  SafetensorsWriter writer(path, std::move(declared), metadata);
  for (const SafetensorsDeclaration& tensor : writer.order())
    writer.append(by_name.at(tensor.name)->view);
  writer.close();
}

}  // namespace tessera
