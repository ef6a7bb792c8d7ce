// Walks over one message of Google's protocol buffers, field by field. Every length is checked
// against the bytes that are there, and nothing is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

class ProtobufReader {
 public:
  /// `what` names the file and the message in errors; `offset` is where the message starts in it.
  ProtobufReader(std::string_view bytes, std::string what, std::size_t offset = 0);

  /// Goes to the next field; false at the end of the message.
  bool next();

  std::uint32_t field() const { return field_; }

  // The value of the current field. InputError when the file gives it another form.
  std::string_view bytes() const;
  std::uint64_t integer() const;
  float real() const;
  bool flag() const { return integer() != 0; }
  /// The message inside the current field.
  ProtobufReader message(std::string_view name) const;

 private:
  enum class Form : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  std::uint64_t read_varint();
  std::string_view take(std::uint64_t count);
  void check_form(Form wanted, std::string_view name) const;

  std::string_view bytes_;
  std::string what_;
  std::size_t offset_;
  std::size_t at_ = 0;
  std::uint32_t field_ = 0;
  Form form_ = Form::varint;
  std::uint64_t integer_ = 0;
  std::string_view value_;
};

}  // namespace tessera
