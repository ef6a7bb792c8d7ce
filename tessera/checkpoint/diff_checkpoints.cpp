#include "tessera/checkpoint/diff_checkpoints.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/json_fields.h"

namespace tessera {
namespace {

constexpr std::int64_t kComparedElements = std::int64_t{1} << 19;  // elements
constexpr std::size_t kLinesShown = 50;

// What of two tensors of one shape differs.
struct Difference {
  std::int64_t elements = 0;
  double largest = -1;
  std::int64_t where = 0;  // of the largest, in row-major order
};

class Lines {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (count_++ < kLinesShown) text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::size_t count() const { return count_; }
  std::string take() {
    if (count_ > kLinesShown) text_ += fmt::format("and {} more\n", count_ - kLinesShown);
    return std::move(text_);
  }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

// A box of a tensor, in its own type.
struct Piece {
  std::vector<std::byte> bytes;
  View view;

  void read(Checkpoint& checkpoint, std::string_view name, const Shape& offset,
            const Shape& extent) {
    const DType dtype = checkpoint.tensor(name).dtype;
    bytes.resize(static_cast<std::size_t>(extent.numel()) * element_size(dtype));
    view = View(bytes.data(), dtype, extent);
    checkpoint.read_box(name, offset, extent, view);
  }
  std::vector<double> values() const {
    std::vector<double> all(static_cast<std::size_t>(view.numel()));
    if (view.dtype() == DType::i16)
      std::copy_n(view.data<std::int16_t>(), all.size(), all.begin());
    else
      convert_into(View(all.data(), DType::f64, view.shape()), view);
    return all;
  }
};

void compare(const Piece& left, const Piece& right, std::int64_t first, Difference& found) {
  if (left.view.dtype() == right.view.dtype() && left.bytes == right.bytes) return;
  const std::vector<double> a = left.values(), b = right.values();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(double)) == 0) continue;
    ++found.elements;
    const double apart = std::abs(a[i] - b[i]);
    // One that is not a number is the worst of all.
    const double size = std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
    if (size <= found.largest) continue;
    found.largest = size;
    found.where = first + static_cast<std::int64_t>(i);
  }
}

// Rows at a time.
Difference compare_values(Checkpoint& left, Checkpoint& right, std::string_view name) {
  const Shape shape = left.tensor(name).shape;
  Difference found;
  if (shape.numel() == 0) return found;
  const std::int64_t rows = shape.rank() == 0 ? 1 : shape[0];
  const std::int64_t width = shape.numel() / rows;
  const std::int64_t step = std::max<std::int64_t>(1, kComparedElements / width);
  Piece a, b;
  for (std::int64_t row = 0; row < rows; row += step) {
    Shape offset = zeros_like(shape), extent = shape;
    if (shape.rank() > 0) {
      offset[0] = row;
      extent[0] = std::min(step, rows - row);
    }
    a.read(left, name, offset, extent);
    b.read(right, name, offset, extent);
    compare(a, b, row * width, found);
  }
  return found;
}

// "[3, 17]"
std::string index_text(const Shape& shape, std::int64_t where) {
  Shape index = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = where % shape[i];
    where /= shape[i];
  }
  return index.to_string();
}

void compare_tensor(Checkpoint& left, Checkpoint& right, const std::string& name, Lines& lines) {
  const TensorRecord &a = left.tensor(name), &b = right.tensor(name);
  if (a.shape != b.shape)
    return lines.add("{}: shape {} against {}", Quoted{name}, a.shape.to_string(),
                     b.shape.to_string());
  const bool types = a.dtype == b.dtype;
  if (!types && !(is_float(a.dtype) && is_float(b.dtype)))
    return lines.add("{}: {} against {}", Quoted{name}, to_string(a.dtype), to_string(b.dtype));
  const Difference found = compare_values(left, right, name);
  if (types && found.elements == 0) return;
  const std::string what =
      types ? "" : fmt::format(" {} against {},", to_string(a.dtype), to_string(b.dtype));
  if (found.elements == 0) return lines.add("{}:{} the same values", Quoted{name}, what);
  lines.add("{}:{} {} of {} values differ, most by {:g} at {}", Quoted{name}, what, found.elements,
            a.shape.numel(), found.largest, index_text(a.shape, found.where));
}

void compare_state(const Json& a, const Json& b, Lines& lines) {
  std::set<std::string> keys;
  for (const Json* each : {&a, &b})
    for (const auto& [key, value] : each->items()) keys.insert(key);
  for (const std::string& key : keys) {
    const std::string left = a.contains(key) ? a[key].dump() : "nothing";
    const std::string right = b.contains(key) ? b[key].dump() : "nothing";
    if (left != right) lines.add("state {}: {} against {}", Quoted{key}, left, right);
  }
}

}  // namespace

CheckpointDiff diff_checkpoints(Checkpoint& left, Checkpoint& right) {
  Lines lines;
  if (left.iteration() != right.iteration())
    lines.add("iteration: {} against {}", left.iteration(), right.iteration());
  compare_state(parse_json(left.manifest().state, "state"),
                parse_json(right.manifest().state, "state"), lines);
  std::size_t equal = 0;
  for (const auto& [name, tensor] : left.manifest().tensors) {
    const std::size_t before = lines.count();
    if (right.contains(name))
      compare_tensor(left, right, name, lines);
    else
      lines.add("{}: only in '{}'", Quoted{name}, left.path().string());
    equal += lines.count() == before ? 1 : 0;
  }
  for (const auto& [name, tensor] : right.manifest().tensors)
    if (!left.contains(name)) lines.add("{}: only in '{}'", Quoted{name}, right.path().string());
  const bool same = lines.count() == 0;
  const std::string end = fmt::format("{} tensors are equal to the bit\n", equal);
  return {same, lines.take() + end};
}

}  // namespace tessera
