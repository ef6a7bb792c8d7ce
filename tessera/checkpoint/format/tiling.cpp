#include "tessera/checkpoint/format/tiling.h"

#include <algorithm>
#include <map>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// A slice of a matrix; that of a vector is in its only row.
struct Box {
  std::int64_t row, rows, column, columns;
};

Box box_of(const TensorSlice& slice) {
  const bool matrix = slice.offset.rank() == 2;
  return {matrix ? slice.offset[0] : 0, matrix ? slice.extent[0] : 1, slice.offset[-1],
          slice.extent[-1]};
}

// Goes down the rows and keeps the columns of the slices that are met there.
void check_no_overlap(const std::vector<Box>& boxes, const std::string& what) {
  struct Border {
    std::int64_t row;
    bool begins;  // ends come first
    const Box* box;
  };
  std::vector<Border> borders;
  for (const Box& box : boxes) {
    borders.push_back({box.row, true, &box});
    borders.push_back({box.row + box.rows, false, &box});
  }
  std::sort(borders.begin(), borders.end(), [](const Border& a, const Border& b) {
    return a.row != b.row ? a.row < b.row : a.begins < b.begins;
  });
  std::map<std::int64_t, std::int64_t> columns;  // begin -> end
  for (const Border& border : borders) {
    const std::int64_t begin = border.box->column;
    const std::int64_t end = begin + border.box->columns;
    if (!border.begins) {
      columns.erase(begin);
      continue;
    }
    const auto next = columns.lower_bound(begin);
    const bool free = (next == columns.end() || next->first >= end) &&
                      (next == columns.begin() || std::prev(next)->second <= begin);
    check_input(free, "{}: slices overlap in row {} at column {}", what, border.row, begin);
    columns.emplace(begin, end);
  }
}

}  // namespace

void check_tiling(const TensorRecord& tensor, const std::string& what) {
  std::int64_t elements = 0;
  for (const TensorSlice& slice : tensor.slices) {
    elements += slice.extent.numel();  // each at most the tensor's
    check_input(elements <= tensor.shape.numel(), "{}: slices hold more than the shape {}", what,
                tensor.shape);
  }
  check_input(elements == tensor.shape.numel(),
              "{}: slices hold {} of the {} elements of the shape {}", what, elements,
              tensor.shape.numel(), tensor.shape);
  if (tensor.slices.size() <= 1) return;
  check_input(tensor.shape.rank() == 1 || tensor.shape.rank() == 2,
              "{}: a tensor of shape {} is saved whole, not in {} slices", what, tensor.shape,
              tensor.slices.size());
  std::vector<Box> boxes;
  for (const TensorSlice& slice : tensor.slices)
    if (slice.extent.numel() > 0) boxes.push_back(box_of(slice));
  check_no_overlap(boxes, what);
}

}  // namespace tessera
