#include "tessera/data/indexed/index_table.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kVersionAt = 9;
constexpr std::size_t kTypeAt = 17;
constexpr std::size_t kSequencesAt = 18;
constexpr std::size_t kDocumentsAt = 26;
constexpr std::size_t kHeaderBytes = 34;
constexpr std::uint64_t kSequenceBytes = 12;  // a length and a pointer
constexpr std::uint64_t kDocumentBytes = 8;

template <class T>
T read_value(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The modes of a multimodal file follow the documents; a text file has none, or zeros.
void check_modes(std::span<const std::byte> modes, std::size_t at, const std::string& file) {
  const auto image =
      std::find_if(modes.begin(), modes.end(), [](auto m) { return m != std::byte{0}; });
  check_input(image == modes.end(),
              "'{}': the mode of sequence {} at byte {} is not 0: multimodal data is not text",
              file, image - modes.begin(), at + static_cast<std::size_t>(image - modes.begin()));
}

}  // namespace

IndexTable::IndexTable(std::span<const std::byte> bytes, std::uint64_t bin_bytes,
                       const std::string& file, std::int64_t most) {
  read_header(bytes, file);
  read_counts(bytes, most, file);
  check_sequences(bin_bytes, file);
  check_documents(file);
}

void IndexTable::read_header(std::span<const std::byte> bytes, const std::string& file) {
  check_input(bytes.size() >= kHeaderBytes,
              "'{}' has {} bytes, fewer than the {} of an index header: it is cut off or not an "
              ".idx file",
              file, bytes.size(), kHeaderBytes);
  check_input(std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) == 0,
              "'{}' does not start with \"MMIDIDX\" at byte 0: not an .idx file of an indexed "
              "dataset",
              file);
  const auto version = read_value<std::uint64_t>(bytes, kVersionAt);
  check_input(version == kIndexVersion, "'{}': the version at byte {} is {}, expected {}", file,
              kVersionAt, version, kIndexVersion);
  const auto code = read_value<std::uint8_t>(bytes, kTypeAt);
  check_input(is_token_type(code), "'{}': the token type at byte {} is {}, expected 1 to 8", file,
              kTypeAt, code);
  type_ = static_cast<TokenType>(code);
}

void IndexTable::read_counts(std::span<const std::byte> bytes, std::int64_t most,
                             const std::string& file) {
  // Divisions, since a product of a hostile count can wrap around.
  const auto sequences = read_value<std::uint64_t>(bytes, kSequencesAt);
  const std::uint64_t room = bytes.size() - kHeaderBytes;
  check_input(sequences <= room / kSequenceBytes,
              "'{}': the sequence count at byte {} is {}, but the file's {} bytes hold at most {}",
              file, kSequencesAt, sequences, bytes.size(), room / kSequenceBytes);
  check_input(std::cmp_less_equal(sequences, most),
              "'{}' has {} sequences, more than the {} that can be indexed: cut it into parts with "
              "`tessera split-data`",
              file, sequences, most);
  const std::uint64_t room_for_documents = room - sequences * kSequenceBytes;
  const auto boundaries = read_value<std::uint64_t>(bytes, kDocumentsAt);
  check_input(boundaries >= 1 && boundaries <= room_for_documents / kDocumentBytes,
              "'{}': the document count at byte {} is {}, but the file's {} bytes hold 1 to {}",
              file, kDocumentsAt, boundaries, bytes.size(), room_for_documents / kDocumentBytes);
  const std::uint64_t rest = room_for_documents - boundaries * kDocumentBytes;
  check_input(rest == 0 || rest == sequences,
              "'{}' has {} bytes, but its header (byte {} and {}) describes {}: the file is cut "
              "off or damaged",
              file, bytes.size(), kSequencesAt, kDocumentsAt, bytes.size() - rest);
  check_modes(bytes.last(rest), bytes.size() - rest, file);

  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(boundaries) - 1;
  lengths_ = bytes.data() + kHeaderBytes;
  starts_ = lengths_ + 4 * sequences;
  documents_at_ = starts_ + 8 * sequences;
}

void IndexTable::check_sequences(std::uint64_t bin_bytes, const std::string& file) {
  const std::uint64_t token_bytes = element_size(type_);
  const auto byte_of = [&](std::int64_t i) { return kHeaderBytes + 4 * sequences_ + 8 * i; };
  std::uint64_t end = 0;  // of the sequence before
  for (std::int64_t i = 0; i < sequences_; ++i) {
    check_input(length(i) >= 0, "'{}': the length of sequence {} at byte {} is {}, below 0", file,
                i, kHeaderBytes + 4 * i, length(i));
    const auto first = static_cast<std::uint64_t>(start(i));
    const auto bytes = static_cast<std::uint64_t>(length(i)) * token_bytes;  // below 2^34
    check_input(start(i) >= 0 && bytes <= bin_bytes && first <= bin_bytes - bytes,
                "'{}': the pointer of sequence {} at byte {} is {}; with {} tokens of {} it does "
                "not fit the .bin file of {} bytes",
                file, i, byte_of(i), start(i), length(i), to_string(type_), bin_bytes);
    check_input((first & (token_bytes - 1)) == 0,  // a power of 2
                "'{}': the pointer of sequence {} at byte {} is {}, not a multiple of the {} bytes "
                "of {}",
                file, i, byte_of(i), first, token_bytes, to_string(type_));
    if (first != end && warning_.empty())
      warning_ = fmt::format(
          "'{}': its sequences do not follow each other: sequence {} begins at byte {} of the .bin "
          "file, not at {}",
          file, i, first, end);
    end = first + bytes;
  }
  if (end != bin_bytes && warning_.empty())
    warning_ = fmt::format(
        "'{}': its sequences have {} bytes, but the .bin file has {}: are the two of one data set?",
        file, end, bin_bytes);
}

void IndexTable::check_documents(const std::string& file) const {
  const auto byte_of = [&](std::int64_t d) { return kHeaderBytes + 12 * sequences_ + 8 * d; };
  check_input(document_start(0) == 0, "'{}': the first document at byte {} starts at {}, not at 0",
              file, byte_of(0), document_start(0));
  for (std::int64_t d = 1; d <= documents_; ++d)
    check_input(document_start(d) >= document_start(d - 1),
                "'{}': the boundary of document {} at byte {} is {}, below the one before, {}",
                file, d, byte_of(d), document_start(d), document_start(d - 1));
  check_input(document_start(documents_) == sequences_,
              "'{}': the last document boundary at byte {} is {}, not the {} sequences", file,
              byte_of(documents_), document_start(documents_), sequences_);
}

}  // namespace tessera
