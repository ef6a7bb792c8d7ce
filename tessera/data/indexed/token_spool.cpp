#include "tessera/data/indexed/token_spool.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/data/indexed/index_table.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;  // values read at a time

// Calls use(span of values) with all values of a table, piece by piece.
template <class T, class Use>
void read_table(const fs::path& path, std::int64_t count, const Use& use) {
  std::ifstream file(path, std::ios::binary);
  std::vector<T> piece(kPiece);
  while (count > 0) {
    const auto n = std::min<std::int64_t>(count, kPiece);
    const auto bytes = static_cast<std::streamsize>(n * static_cast<std::int64_t>(sizeof(T)));
    file.read(reinterpret_cast<char*>(piece.data()), bytes);
    check(file.gcount() == bytes, "'{}' cannot be read back", path.string());
    use(std::span<const T>(piece).first(static_cast<std::size_t>(n)));
    count -= n;
  }
}

}  // namespace

TokenSpool::TokenSpool(const std::string& base, TokenType type, const SpoolPosition& at)
    : base_(base),
      type_(type),
      position_(at),
      bin_(base + ".bin", at.tokens * static_cast<std::int64_t>(element_size(type))),
      lengths_(base + ".lengths", at.sequences * static_cast<std::int64_t>(sizeof(std::int32_t))),
      documents_(base + ".documents",
                 at.documents * static_cast<std::int64_t>(sizeof(std::int64_t))) {}

void TokenSpool::count_sequence(std::size_t tokens) {
  check_input(tokens <= std::numeric_limits<std::int32_t>::max(),
              "'{}.bin': sequence {} has {} tokens, more than the {} that the format allows: split "
              "it",
              base_, position_.sequences, tokens, std::numeric_limits<std::int32_t>::max());
  const auto length = static_cast<std::int32_t>(tokens);
  lengths_.write(&length, sizeof(length));
  position_.tokens += length;
  ++position_.sequences;
}

void TokenSpool::add_sequence(std::span<const std::int32_t> tokens) {
  if (type_ == TokenType::i32) return add_stored(std::as_bytes(tokens));
  if (type_ == TokenType::u16) return add_narrow(tokens, u16_);
  check(type_ == TokenType::u8, "tokens are written as u8, u16 or i32, not as {}",
        to_string(type_));
  add_narrow(tokens, u8_);
}

template <class T>
void TokenSpool::add_narrow(std::span<const std::int32_t> tokens, std::vector<T>& narrow) {
  narrow.clear();
  for (const std::int32_t token : tokens) {
    if (token < 0 || token > std::numeric_limits<T>::max())
      fail_input("'{}.bin': sequence {}: token {} does not fit {}", base_, position_.sequences,
                 token, to_string(type_));
    narrow.push_back(static_cast<T>(token));
  }
  add_stored(std::as_bytes(std::span<const T>(narrow)));
}

void TokenSpool::add_stored(std::span<const std::byte> tokens) {
  count_sequence(tokens.size() / element_size(type_));
  bin_.write(tokens.data(), tokens.size());
}

void TokenSpool::end_document() {
  documents_.write(&position_.sequences, sizeof(position_.sequences));
  ++position_.documents;
}

void TokenSpool::sync() {
  bin_.sync();
  lengths_.sync();
  documents_.sync();
}

void TokenSpool::finish() {
  sync();
  write_index();
}

void TokenSpool::write_index() {
  AppendFile idx(base_ + ".idx");
  const auto put = [&](const auto& value) { idx.write(&value, sizeof(value)); };
  idx.write(kIndexMagic.data(), kIndexMagic.size());
  put(kIndexVersion);
  put(type_);
  put(static_cast<std::uint64_t>(position_.sequences));
  put(static_cast<std::uint64_t>(position_.documents) + 1);
  read_table<std::int32_t>(
      lengths_.path(), position_.sequences,
      [&](std::span<const std::int32_t> piece) { idx.write(piece.data(), piece.size_bytes()); });
  const auto token_bytes = static_cast<std::int64_t>(element_size(type_));
  std::int64_t pointer = 0;
  read_table<std::int32_t>(lengths_.path(), position_.sequences,
                           [&](std::span<const std::int32_t> piece) {
                             for (const std::int32_t length : piece) {
                               put(pointer);
                               pointer += length * token_bytes;
                             }
                           });
  put(std::int64_t{0});
  read_table<std::int64_t>(
      documents_.path(), position_.documents,
      [&](std::span<const std::int64_t> piece) { idx.write(piece.data(), piece.size_bytes()); });
  idx.sync();
}

void publish_spool(const std::string& base, const std::string& prefix) {
  if (fs::exists(base + ".bin")) {
    const fs::path old = prefix + ".idx";
    std::error_code error;
    if (fs::remove(old, error)) sync_path(folder_of(old));
    check(!error, "cannot remove the old '{}': {}", old.string(), error.message());
    rename_durably(base + ".bin", prefix + ".bin");
  }
  if (fs::exists(base + ".idx")) rename_durably(base + ".idx", prefix + ".idx");
}

void remove_spool(const std::string& base) {
  std::error_code ignored;  // there may be nothing to remove
  for (const char* ending : {".bin", ".idx", ".lengths", ".documents"})
    fs::remove(base + ending, ignored);
}

}  // namespace tessera
