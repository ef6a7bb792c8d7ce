#include "tessera/checkpoint/format/safetensors_reader.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/format/safetensors_type.h"

namespace tessera {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

// The header's text, found from the length in the first eight bytes.
std::string_view header_text(std::span<const std::byte> bytes, const std::string& what) {
  check_input(bytes.size() >= kLengthBytes,
              "'{}': {} bytes are too few for a safetensors file, which begins with the 8-byte "
              "length of its header",
              what, bytes.size());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  check_input(length <= kMaxSafetensorsHeader,
              "'{}': the header length at byte 0 is {}, more than the {} that safetensors allows; "
              "is this a safetensors file?",
              what, length, kMaxSafetensorsHeader);
  check_input(length <= bytes.size() - kLengthBytes,
              "'{}': the header should have {} bytes from byte 8 on, but the file ends at byte {}: "
              "it was cut short",
              what, length, bytes.size());
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
          static_cast<std::size_t>(length)};
}

// The JSON parser would skip a byte-order mark and stop at a zero byte; the format has neither.
Json parse_header(std::string_view text, const std::string& what) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  check_input(first != std::string_view::npos && text[first] == '{',
              "'{}': the header at byte 8 does not begin with '{{'", what);
  const std::size_t zero = text.find('\0');
  check_input(zero == std::string_view::npos, "'{}': the header has a zero byte at byte {}", what,
              zero + kLengthBytes);
  return parse_json(text, fmt::format("'{}', header at byte 8", what));
}

// One tensor of the header while it is checked: what messages call it, and what it says.
class EntryParser {
 public:
  EntryParser(const std::string& what, std::string_view name, const Json& value)
      : where_(fmt::format("'{}', tensor {}", what, Quoted{name})), value_(value) {
    check_input(value.is_object(), "{}: the header has {} instead of an object", where_,
                value.type_name());
  }

  SafetensorsEntry parse(std::span<const std::byte> data, std::size_t data_start) const {
    const SafetensorsType& type = parse_type();
    SafetensorsEntry entry;
    entry.dtype = type.name;
    entry.shape = parse_shape();
    const std::uint64_t bytes = expected_bytes(type, entry.shape);
    const Json& offsets = array("data_offsets");
    check_input(offsets.size() == 2, "{}: data_offsets has {} numbers instead of 2", where_,
                offsets.size());
    const std::uint64_t begin = number(offsets[0], "data_offsets");
    const std::uint64_t end = number(offsets[1], "data_offsets");
    check_input(begin <= end, "{}: data_offsets [{}, {}] end before they begin", where_, begin,
                end);
    check_input(end <= data.size(),
                "{}: data_offsets [{}, {}] go beyond the {} bytes of data that begin at byte {}: "
                "the file was cut short or damaged",
                where_, begin, end, data.size(), data_start);
    check_input(end - begin == bytes,
                "{}: data_offsets [{}, {}] hold {} bytes, but {} of this shape needs {}", where_,
                begin, end, end - begin, type.name, bytes);
    entry.offset = data_start + begin;
    entry.data = data.subspan(begin, end - begin);
    return entry;
  }

 private:
  const Json& field(const char* key) const {
    const auto found = value_.find(key);
    check_input(found != value_.end(), "{}: the header gives no {}", where_, key);
    return *found;
  }

  const Json& array(const char* key) const {
    const Json& value = field(key);
    check_input(value.is_array(), "{}: {} is {} instead of an array", where_, key,
                value.type_name());
    return value;
  }

  std::uint64_t number(const Json& value, const char* key) const {
    check_input(value.is_number_unsigned(), "{}: {} must hold whole numbers from 0 on, got {:.40}",
                where_, key, value.dump());
    return value.get<std::uint64_t>();
  }

  const SafetensorsType& parse_type() const {
    const Json& value = field("dtype");
    check_input(value.is_string(), "{}: dtype is {} instead of a string", where_,
                value.type_name());
    const SafetensorsType* type = find_safetensors_type(value.get_ref<const std::string&>());
    check_input(type != nullptr, "{}: safetensors has no dtype '{:.40}'", where_,
                value.get_ref<const std::string&>());
    return *type;
  }

  // Dimensions whose product (leaving out zeros, so that strides are safe too) stays far from
  // overflow.
  std::vector<std::int64_t> parse_shape() const {
    std::vector<std::int64_t> shape;
    std::int64_t product = 1;
    for (const Json& value : array("shape")) {
      const std::uint64_t dim = number(value, "shape");
      check_input(
          dim <= static_cast<std::uint64_t>(kMaxElements) &&
              product <= kMaxElements / std::max<std::int64_t>(static_cast<std::int64_t>(dim), 1),
          "{}: the shape has more than 2^56 elements at dimension {} ({})", where_, shape.size(),
          dim);
      shape.push_back(static_cast<std::int64_t>(dim));
      product *= std::max<std::int64_t>(shape.back(), 1);
    }
    return shape;
  }

  std::uint64_t expected_bytes(const SafetensorsType& type,
                               const std::vector<std::int64_t>& shape) const {
    std::uint64_t bits = type.bits;  // at most 2^6 * 2^56
    for (const std::int64_t dim : shape) bits *= static_cast<std::uint64_t>(dim);
    check_input(bits % 8 == 0, "{}: {} bits of {} do not fill whole bytes", where_, bits,
                type.name);
    return bits / 8;
  }

  std::string where_;
  const Json& value_;
};

std::map<std::string, std::string> parse_metadata(const Json& value, const std::string& what) {
  check_input(value.is_object(), "'{}': __metadata__ is {} instead of an object", what,
              value.type_name());
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    check_input(text.is_string(), "'{}': __metadata__ {} is {} instead of a string", what,
                Quoted{key}, text.type_name());
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

using Entries = std::map<std::string, SafetensorsEntry, std::less<>>;

// Tensors must follow each other without holes or overlaps up to the end of the file.
void check_tiling(const Entries& entries, std::size_t data_start, std::size_t file_size,
                  const std::string& what) {
  std::vector<std::tuple<std::size_t, std::size_t, std::string_view>> ranges;
  for (const auto& [name, entry] : entries)
    ranges.emplace_back(entry.offset, entry.offset + entry.data.size(), name);
  std::sort(ranges.begin(), ranges.end());
  std::size_t next = data_start;
  for (const auto& [begin, end, name] : ranges) {
    check_input(begin == next,
                "'{}', tensor {}: its data begin at byte {} of the file, but the data "
                "before it end at byte {}: the header describes {}",
                what, Quoted{name}, begin, next, begin < next ? "an overlap" : "a hole");
    next = end;
  }
  check_input(next == file_size,
              "'{}': the tensors end at byte {}, but the file ends at byte {}: {} bytes belong to "
              "no tensor",
              what, next, file_size, file_size - next);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : what_(path.string()), map_(path) {
  parse(map_.bytes());
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, std::string what)
    : what_(std::move(what)) {
  parse(bytes);
}

void SafetensorsFile::parse(std::span<const std::byte> bytes) {
  const std::string_view text = header_text(bytes, what_);
  const std::size_t data_start = kLengthBytes + text.size();
  const Json header = parse_header(text, what_);
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__")
      metadata_ = parse_metadata(value, what_);
    else
      entries_[name] = EntryParser(what_, name, value).parse(bytes.subspan(data_start), data_start);
  }
  check_tiling(entries_, data_start, bytes.size(), what_);
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  check_input(found != entries_.end(), "'{}' has no tensor {}", what_, Quoted{name});
  return found->second;
}

std::string SafetensorsFile::where(std::string_view name) const {
  return fmt::format("'{}', tensor {} (at byte {})", what_, Quoted{name}, entry(name).offset);
}

Shape SafetensorsFile::shape(std::string_view name) const {
  const std::vector<std::int64_t>& dims = entry(name).shape;
  check_input(dims.size() <= Shape::kMaxRank, "{}: {} dimensions, more than the {} that we handle",
              where(name), dims.size(), Shape::kMaxRank);
  return Shape(dims);
}

DType SafetensorsFile::dtype(std::string_view name) const {
  const SafetensorsType* type = find_safetensors_type(entry(name).dtype);
  check_input(type->dtype.has_value(),
              "{}: dtype {} cannot be computed with; convert the tensor to one of F64, F32, BF16, "
              "F16, I64, I32, U8",
              where(name), entry(name).dtype);
  return *type->dtype;
}

ConstView SafetensorsFile::raw_view(std::string_view name) const {
  return {entry(name).data.data(), dtype(name), shape(name)};
}

ConstView SafetensorsFile::view(std::string_view name) const {
  const ConstView view = raw_view(name);
  const auto address = reinterpret_cast<std::uintptr_t>(view.raw());
  check_input(address % element_size(view.dtype()) == 0,
              "{}: {} elements are not at a multiple of {} bytes; save the file again with a "
              "current safetensors library, which aligns them",
              where(name), to_string(view.dtype()), element_size(view.dtype()));
  return view;
}

void SafetensorsFile::read(std::string_view name, const View& destination) const {
  const Shape whole = shape(name);
  check_input(destination.shape() == whole, "{}: expected shape {}, got {}", where(name),
              destination.shape().to_string(), whole.to_string());
  read_box(name, zeros_like(whole), whole, destination);
}

void SafetensorsFile::read_box(std::string_view name, const Shape& offset, const Shape& extent,
                               const View& destination) const {
  ConstView source = raw_view(name);
  check(offset.rank() == source.rank() && extent.rank() == source.rank() &&
            destination.shape() == extent,
        "{}: box at {} of {} read into {}, from shape {}", where(name), offset.to_string(),
        extent.to_string(), destination.to_string(), source.shape().to_string());
  for (int i = 0; i < source.rank(); ++i) source = source.slice(i, offset[i], extent[i]);
  const bool convertible = is_float(source.dtype()) && is_float(destination.dtype());
  check_input(convertible || source.dtype() == destination.dtype(),
              "{}: dtype {} cannot be read as {}", where(name), entry(name).dtype,
              to_string(destination.dtype()));
  convert_into(destination, source);
}

}  // namespace tessera
