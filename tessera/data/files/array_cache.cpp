#include "tessera/data/files/array_cache.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/data/files/pending_file.h"

namespace tessera {
namespace {

// The .npy header, padded so that the data starts at a multiple of 64 bytes.
std::string npy_header(const ArraySpec& array) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},{}), }}",
                                 array.descr, array.rows, array.row_shape);
  constexpr std::size_t kPrefix = 10;  // magic, version, length
  dict.append(63 - (kPrefix + dict.size()) % 64, ' ');
  dict.push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(dict.size() & 0xff));
  header.push_back(static_cast<char>(dict.size() >> 8));
  return header + dict;
}

fs::path cache_file(const fs::path& base, const std::string& name) {
  fs::path path = base;
  path += "-" + name;
  return path;
}

fs::path array_file(const fs::path& base, const ArraySpec& array) {
  return cache_file(base, fmt::format("{}.npy", array.name));
}

fs::path description_file(const fs::path& base) { return cache_file(base, "description.txt"); }

std::string description(const std::string& specification, std::span<const ArraySpec> arrays,
                        const std::vector<std::uint64_t>& checksums) {
  std::string text = specification;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    text += fmt::format("{}: {:016x}\n", arrays[i].name, checksums[i]);
  return text;
}

// The elements of a mapped .npy file, whose header must be the expected one to the byte.
std::span<const std::byte> array_data(const MappedFile& file, const ArraySpec& array) {
  const std::string header = npy_header(array);
  const std::span<const std::byte> bytes = file.bytes();
  const std::size_t expected =
      header.size() + static_cast<std::size_t>(array.rows) * array.row_bytes;
  check_input(bytes.size() == expected, "'{}' has {} bytes, expected {}", file.path().string(),
              bytes.size(), expected);
  check_input(std::memcmp(bytes.data(), header.data(), header.size()) == 0,
              "'{}' does not have the expected NumPy header", file.path().string());
  return bytes.subspan(header.size());
}

ArrayBytes load_arrays(const fs::path& base, const std::string& specification,
                       std::span<const ArraySpec> arrays) {
  auto files = std::make_shared<std::vector<MappedFile>>();
  ArrayBytes found;
  std::vector<std::uint64_t> checksums;
  for (const ArraySpec& array : arrays) {
    files->emplace_back(array_file(base, array));
    found.data.push_back(array_data(files->back(), array));
    checksums.push_back(bytes_checksum(found.data.back()));
  }
  const fs::path described = description_file(base);
  check_input(read_text_file(described, std::size_t{1} << 26) ==
                  description(specification, arrays, checksums),
              "'{}' and the checksums of its files do not agree", described.string());
  found.storage = files;
  return found;
}

// Several processes may do this at the same time, on several machines.
void write_file(const fs::path& path, const std::string& header,
                std::span<const std::byte> data = {}) {
  PendingFile file(path);
  file.write(header.data(), header.size());
  file.write(data.data(), data.size());
  file.publish();
}

void store(const fs::path& base, const std::string& specification,
           std::span<const ArraySpec> arrays, const ArrayBytes& built) {
  fs::create_directories(folder_of(base));
  std::vector<std::uint64_t> checksums;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    write_file(array_file(base, arrays[i]), npy_header(arrays[i]), built.data[i]);
    checksums.push_back(bytes_checksum(built.data[i]));
  }
  write_file(description_file(base), description(specification, arrays, checksums));
}

}  // namespace

std::uint64_t bytes_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

ArrayBytes cached_arrays(const fs::path& folder, const std::string& specification,
                         std::span<const ArraySpec> arrays,
                         const std::function<ArrayBytes()>& build) {
  if (folder.empty()) return build();
  const XXH128_hash_t hash = XXH3_128bits(specification.data(), specification.size());
  const fs::path base = folder / fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  const auto find = [&]() -> std::optional<ArrayBytes> {
    std::error_code unreadable;
    if (!fs::exists(description_file(base), unreadable)) return std::nullopt;
    try {
      return load_arrays(base, specification, arrays);
    } catch (const Error& error) {
      log_warning_once("the cached data indices are damaged and are built anew: {}", error.what());
      return std::nullopt;
    }
  };
  if (auto found = find()) return std::move(*found);
  ArrayBytes built = build();
  // Another process may have been faster; what it has mapped by now must stay.
  if (auto found = find()) return std::move(*found);
  try {
    store(base, specification, arrays, built);
  } catch (const std::runtime_error& error) {  // ours, or the file system's
    log_warning("the data indices could not be cached: {}", error.what());
  }
  return built;
}

}  // namespace tessera
