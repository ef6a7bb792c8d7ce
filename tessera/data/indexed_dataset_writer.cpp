#include "tessera/data/indexed_dataset_writer.h"

#include <bit>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/data/index_table.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenType type)
    : bin_name_(prefix + ".bin"), type_(type), bin_(prefix + ".bin"), idx_(prefix + ".idx") {
  check(type == TokenType::u16 || type == TokenType::i32,
        "token files are written as u16 or i32, not as {}", name_of(type));
}

void IndexedDatasetWriter::add_document(std::span<const std::int32_t> tokens) {
  if (!tokens.empty()) add_sequence(tokens);
  end_document();
}

void IndexedDatasetWriter::add_sequence(std::span<const std::int32_t> tokens) {
  check_input(tokens.size() <= std::numeric_limits<std::int32_t>::max(),
              "'{}': sequence {} has {} tokens, more than the {} that the format allows: split it",
              bin_name_, lengths_.size(), tokens.size(), std::numeric_limits<std::int32_t>::max());
  if (type_ == TokenType::i32) {
    bin_.write(tokens.data(), tokens.size_bytes());
  } else {
    narrow_.clear();
    for (const std::int32_t token : tokens) {
      if (token < 0 || token > 0xffff)
        fail_input("'{}': sequence {}: token {} does not fit u16", bin_name_, lengths_.size(),
                   token);
      narrow_.push_back(static_cast<std::uint16_t>(token));
    }
    bin_.write(narrow_.data(), narrow_.size() * sizeof(std::uint16_t));
  }
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  tokens_ += static_cast<std::int64_t>(tokens.size());
}

void IndexedDatasetWriter::end_document() {
  document_starts_.push_back(static_cast<std::int64_t>(lengths_.size()));
}

void IndexedDatasetWriter::finish() {
  bin_.close();
  write_index();
  idx_.close();
  std::error_code error;
  if (fs::remove(idx_.path(), error)) sync_path(folder_of(idx_.path()));
  check(!error, "cannot remove the old '{}': {}", idx_.path().string(), error.message());
  bin_.publish();
  idx_.publish();
}

void IndexedDatasetWriter::write_index() {
  const auto put = [this](const auto& value) { idx_.write(&value, sizeof(value)); };
  idx_.write(kIndexMagic.data(), kIndexMagic.size());
  put(kIndexVersion);
  put(type_);
  put(std::uint64_t{lengths_.size()});
  put(std::uint64_t{document_starts_.size()});
  idx_.write(lengths_.data(), lengths_.size() * sizeof(std::int32_t));
  const auto token_bytes = static_cast<std::int64_t>(size_of(type_));
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    put(pointer);
    pointer += length * token_bytes;
  }
  idx_.write(document_starts_.data(), document_starts_.size() * sizeof(std::int64_t));
}

}  // namespace tessera
