// Builds .idx files byte by byte from the written layout, apart from the code under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace tessera::test {

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(T));
}

template <class T>
void overwrite(std::vector<std::byte>& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// The bytes of an .idx file with these fields, right or wrong.
inline std::vector<std::byte> index_bytes(std::uint8_t type,
                                          const std::vector<std::int32_t>& lengths,
                                          const std::vector<std::int64_t>& pointers,
                                          const std::vector<std::int64_t>& documents) {
  std::vector<std::byte> bytes;
  for (const char c : {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'}) append(bytes, c);
  append(bytes, std::uint64_t{1});
  append(bytes, type);
  append(bytes, std::uint64_t{lengths.size()});
  append(bytes, std::uint64_t{documents.size()});
  for (const std::int32_t length : lengths) append(bytes, length);
  for (const std::int64_t pointer : pointers) append(bytes, pointer);
  for (const std::int64_t document : documents) append(bytes, document);
  return bytes;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace tessera::test
