// HfFolder: reads parameters from where they lie.
#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/mxfp4.h"
#include "tessera/checkpoint/hf/hf_folder.h"

namespace tessera {
namespace {

Shape with_leading(std::int64_t first, const Shape& shape) {
  std::vector<std::int64_t> dims{first};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

}  // namespace

void HfFolder::read(std::string_view name, const View& destination) const {
  const Shape& shape = locate(name).shape;
  check_input(destination.shape() == shape,
              "'{}', parameter '{}': expected shape {}, got {}: the checkpoint's model and the one "
              "being built differ",
              files_[locate(name).slices.front().file].what(), name,
              destination.shape().to_string(), shape.to_string());
  read_box(name, zeros_like(shape), shape, destination);
}

void HfFolder::read_box(std::string_view name, const Shape& offset, const Shape& extent,
                        const View& destination) const {
  const HfLocation& location = locate(name);
  bool inside = offset.rank() == location.shape.rank() && extent.rank() == offset.rank();
  for (int i = 0; inside && i < offset.rank(); ++i)
    inside = offset[i] <= location.shape[i] && extent[i] <= location.shape[i] - offset[i];
  check(inside && destination.shape() == extent, "box at {} of {} of parameter '{}' {} into {}",
        offset.to_string(), extent.to_string(), name, location.shape.to_string(),
        destination.to_string());
  if (!location.of_experts) return read_slice(location.slices.front(), offset, extent, destination);
  const Shape in_slice(offset.dims().subspan(1)), of_slice(extent.dims().subspan(1));
  for (std::int64_t i = 0; i < extent[0]; ++i)
    read_slice(location.slices[static_cast<std::size_t>(offset[0] + i)], in_slice, of_slice,
               matrix_view(destination, i));
}

// Our rows of one block after the other.
void HfFolder::read_slice(const HfSlice& slice, const Shape& offset, const Shape& extent,
                          const View& destination) const {
  const std::int64_t share = slice.shape[0] / slice.blocks;
  for (std::int64_t done = 0; done < extent[0];) {
    const std::int64_t row = offset[0] + done;
    const std::int64_t block = row / share;
    Shape file_offset = offset, part = extent;
    file_offset[0] = block * slice.block_rows + slice.out_begin + row % share;
    part[0] = std::min(extent[0] - done, share - row % share);
    read_rows(slice, file_offset, part, destination.slice(0, done, part[0]));
    done += part[0];
  }
}

// A box whose offset is along `out` of the file's tensor.
void HfFolder::read_rows(const HfSlice& slice, Shape offset, Shape extent,
                         const View& destination) const {
  if (slice.scales) return read_mxfp4(slice, offset, extent, destination);
  const SafetensorsFile& file = files_[slice.file];
  const View stored = slice.transposed ? transposed_view(destination) : destination;
  if (slice.transposed) {
    std::swap(offset[0], offset[1]);
    std::swap(extent[0], extent[1]);
  }
  if (!slice.in_stack) return file.read_box(slice.tensor, offset, extent, stored);
  file.read_box(slice.tensor, with_leading(*slice.in_stack, offset), with_leading(1, extent),
                stack_view(stored));
}

// Rows and columns of one expert. Columns are decoded from the block before the first one on.
void HfFolder::read_mxfp4(const HfSlice& slice, const Shape& offset, const Shape& extent,
                          const View& destination) const {
  const std::int64_t expert = slice.in_stack.value_or(0), rows = extent[0];
  const std::int64_t first = offset[1] / kMxfp4Block;
  const std::int64_t last = (offset[1] + extent[1] + kMxfp4Block - 1) / kMxfp4Block;
  const std::int64_t count = last - first;
  std::vector<std::uint8_t> blocks(static_cast<std::size_t>(rows * count * kMxfp4BlockBytes));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(rows * count));
  std::vector<float> numbers(static_cast<std::size_t>(rows * count * kMxfp4Block));
  const View block_view(blocks.data(), DType::u8, {rows, count, kMxfp4BlockBytes});
  const View scale_view(scales.data(), DType::u8, {rows, count});
  const View decoded(numbers.data(), DType::f32, {rows, count * kMxfp4Block});
  const auto one = [](const View& view) {  // of one expert
    return view.reshape(with_leading(1, view.shape()));
  };
  files_[slice.file].read_box(slice.tensor, {expert, offset[0], first, 0},
                              {1, rows, count, kMxfp4BlockBytes}, one(block_view));
  files_[slice.scales->file].read_box(slice.scales->tensor, {expert, offset[0], first},
                                      {1, rows, count}, one(scale_view));
  decode_mxfp4(decoded, block_view, scale_view);
  convert_into(destination, decoded.slice(1, offset[1] - first * kMxfp4Block, extent[1]));
}

// Two bits of mantissa and a power of two: bf16 holds all of them.
DType HfFolder::stored_type(const HfSlice& slice) const {
  return slice.scales ? DType::bf16 : files_[slice.file].dtype(slice.tensor);
}

}  // namespace tessera
