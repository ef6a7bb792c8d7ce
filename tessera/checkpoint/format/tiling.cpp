#include "tessera/checkpoint/format/tiling.h"

#include <algorithm>
#include <map>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// How many slices of a tensor of three or more dimensions are looked at, plane by plane. Ranks that
// share planes among them have slices of a plane or of whole planes, so that each is met once.
constexpr std::int64_t kMostWork = 10'000'000;

// The last two dimensions of a slice; a vector is the only row of a matrix.
struct Box {
  std::int64_t row, rows, column, columns;
};

Box last_dimensions(const TensorSlice& slice) {
  const bool matrix = slice.offset.rank() >= 2;
  return {matrix ? slice.offset[-2] : 0, matrix ? slice.extent[-2] : 1, slice.offset[-1],
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

// Slices that overlap do so where one of them begins: along `dim` and the dimensions after it,
// those that are met there must not. `work` is what is left of the slices that may be looked at.
void check_no_overlap(std::vector<const TensorSlice*> slices, int dim, std::int64_t& work,
                      const std::string& what) {
  if (slices.front()->offset.rank() - dim <= 2) {
    std::vector<Box> boxes;
    for (const TensorSlice* slice : slices) boxes.push_back(last_dimensions(*slice));
    return check_no_overlap(boxes, what);
  }
  std::ranges::sort(slices, {}, [dim](const TensorSlice* slice) { return slice->offset[dim]; });
  std::vector<const TensorSlice*> met;
  for (std::size_t i = 0; i < slices.size();) {
    const std::int64_t begin = slices[i]->offset[dim];
    std::erase_if(met, [&](const TensorSlice* slice) {
      return slice->offset[dim] + slice->extent[dim] <= begin;
    });
    for (; i < slices.size() && slices[i]->offset[dim] == begin; ++i) met.push_back(slices[i]);
    work -= std::ssize(met);
    check_input(work >= 0, "{}: its slices begin in too many different planes", what);
    check_no_overlap(met, dim + 1, work, what);
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
  check_input(tensor.shape.rank() >= 1, "{}: a single number is saved in {} slices", what,
              tensor.slices.size());
  std::vector<const TensorSlice*> slices;
  for (const TensorSlice& slice : tensor.slices)
    if (slice.extent.numel() > 0) slices.push_back(&slice);
  std::int64_t work = kMostWork;
  if (!slices.empty()) check_no_overlap(slices, 0, work, what);
}

}  // namespace tessera
