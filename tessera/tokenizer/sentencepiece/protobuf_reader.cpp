#include "tessera/tokenizer/sentencepiece/protobuf_reader.h"

#include <bit>
#include <cstring>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {

ProtobufReader::ProtobufReader(std::string_view bytes, std::string what, std::size_t offset)
    : bytes_(bytes), what_(std::move(what)), offset_(offset) {}

std::uint64_t ProtobufReader::read_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    check_input(at_ < bytes_.size(), "{}: the file ends within a number, at byte {}", what_,
                offset_ + at_);
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  fail_input("{}: a number of more than 10 bytes before byte {}", what_, offset_ + at_);
}

std::string_view ProtobufReader::take(std::uint64_t count) {
  check_input(
      count <= bytes_.size() - at_,
      "{}: field {} at byte {} says that {} bytes follow, but {} do: the file is cut off or "
      "damaged",
      what_, field_, offset_ + at_, count, bytes_.size() - at_);
  const std::string_view taken = bytes_.substr(at_, count);
  at_ += count;
  return taken;
}

bool ProtobufReader::next() {
  if (at_ == bytes_.size()) return false;
  const std::size_t start = offset_ + at_;
  const std::uint64_t tag = read_varint();
  const std::uint64_t number = tag >> 3;
  check_input(number >= 1 && number < (1u << 29), "{}: field number {} at byte {}", what_, number,
              start);
  field_ = static_cast<std::uint32_t>(number);
  form_ = static_cast<Form>(tag & 7);
  switch (form_) {
    case Form::varint: integer_ = read_varint(); break;
    case Form::fixed64: value_ = take(8); break;
    case Form::bytes: value_ = take(read_varint()); break;
    case Form::fixed32: value_ = take(4); break;
    default:
      fail_input("{}: field {} at byte {} has wire type {}, which this format does not use", what_,
                 field_, start, tag & 7);
  }
  return true;
}

void ProtobufReader::check_form(Form wanted, std::string_view name) const {
  check_input(form_ == wanted, "{}: field {} before byte {} should hold {}, but has wire type {}",
              what_, field_, offset_ + at_, name, static_cast<int>(form_));
}

std::string_view ProtobufReader::bytes() const {
  check_form(Form::bytes, "bytes");
  return value_;
}

std::uint64_t ProtobufReader::integer() const {
  check_form(Form::varint, "an integer");
  return integer_;
}

float ProtobufReader::real() const {
  check_form(Form::fixed32, "a 32-bit number");
  std::uint32_t bits = 0;
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&bits, value_.data(), sizeof bits);
  return std::bit_cast<float>(bits);
}

ProtobufReader ProtobufReader::message(std::string_view name) const {
  const std::string_view inner = bytes();
  return {inner, fmt::format("{}: {}", what_, name), offset_ + at_ - inner.size()};
}

}  // namespace tessera
