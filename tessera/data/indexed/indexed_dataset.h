// Reads a pair of files in Megatron's layout, memory-mapped: `prefix.bin` and `prefix.idx`.
#pragma once

#include "tessera/base/files.h"
#include "tessera/data/indexed/index_table.h"
#include "tessera/data/indexed/token_source.h"

namespace tessera {

/// Everything in the .idx file is checked when it is opened. Tokens of any type are read; a value
/// that is not a 32-bit integer is an InputError when it is met.
class IndexedDataset : public TokenSource {
 public:
  /// With more than `most` sequences it is refused at once.
  explicit IndexedDataset(const std::string& prefix,
                          std::int64_t most = std::numeric_limits<std::int64_t>::max());
  /// The same over bytes that the caller keeps alive.
  IndexedDataset(std::span<const std::byte> idx, std::span<const std::byte> bin,
                 const std::string& prefix);

  const IndexTable& table() const { return table_; }

  std::int64_t size() const override { return table_.sequences(); }
  std::int32_t length(std::int64_t i) const override { return table_.length(i); }
  void tokens(std::int64_t i, std::int64_t offset, std::span<std::int32_t> out) const override;
  std::string warning() const override { return table_.warning(); }
  const std::string& name() const override { return bin_name_; }

 private:
  IndexedDataset(MappedFile idx, MappedFile bin, const std::string& prefix, std::int64_t most);

  MappedFile idx_file_;  // empty when the bytes are the caller's
  MappedFile bin_file_;
  std::string bin_name_;
  std::span<const std::byte> bin_;
  IndexTable table_;
};

}  // namespace tessera
