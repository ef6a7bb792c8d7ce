#include "tessera/data/gpt_index_cache.h"

#include <array>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/data/pending_file.h"

namespace tessera {
namespace {

// Of the three files: what they are called, their elements, and how many rows.
struct ArraySpec {
  const char* name;
  const char* descr;  // NumPy's name of the element type
  std::size_t row_bytes;
  std::int64_t rows;
  const char* row_shape;
};

using ArraySpecs = std::array<ArraySpec, 3>;

ArraySpecs array_specs(const GptIndexSpec& spec, const GptEpochs& plan) {
  return {{{"document_index", "<i4", 4, plan.epochs * spec.range.size(), ""},
           {"sample_index", "<i8", sizeof(SampleStart), plan.samples + 1, " 2"},
           {"shuffle_index", "<i8", 8, plan.samples, ""}}};
}

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

fs::path file_of(const fs::path& base, const char* name) {
  fs::path path = base;
  path += fmt::format("-{}", name);
  return path;
}

fs::path array_file(const fs::path& base, const ArraySpec& array) {
  return file_of(base, fmt::format("{}.npy", array.name).c_str());
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string specification(std::span<const std::int32_t> lengths, const GptIndexSpec& spec) {
  return fmt::format(
      "tessera GPT indices, version 1\nsequences: {} to {}\nlengths: {:016x}\nnum_samples: {}\n"
      "seq_length: {}\nseed: {}\n",
      spec.range.begin, spec.range.end, checksum(std::as_bytes(lengths)), spec.num_samples,
      spec.seq_length, spec.seed);
}

std::string description(const std::string& specification_text, const ArraySpecs& arrays,
                        const std::array<std::uint64_t, 3>& checksums) {
  std::string text = specification_text;
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

template <class T>
std::span<const T> elements(std::span<const std::byte> data) {
  return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
}

GptIndices load(const fs::path& base, const std::string& specification_text,
                const ArraySpecs& arrays) {
  auto files = std::make_shared<std::array<MappedFile, 3>>();
  std::array<std::span<const std::byte>, 3> data;
  std::array<std::uint64_t, 3> checksums{};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    (*files)[i] = MappedFile(array_file(base, arrays[i]));
    data[i] = array_data((*files)[i], arrays[i]);
    checksums[i] = checksum(data[i]);
  }
  const fs::path described = file_of(base, "description.txt");
  check_input(
      read_text_file(described, 1 << 16) == description(specification_text, arrays, checksums),
      "'{}' and the checksums of its files do not agree", described.string());
  return {elements<std::int32_t>(data[0]), elements<SampleStart>(data[1]),
          elements<std::int64_t>(data[2]), files};
}

void write_file(const fs::path& path, const std::string& header, std::span<const std::byte> data,
                const std::string& suffix) {
  PendingFile file(path, suffix);
  file.write(header.data(), header.size());
  file.write(data.data(), data.size());
  file.close();
  file.publish();
}

void store(const fs::path& base, const std::string& specification_text, const ArraySpecs& arrays,
           const GptIndices& indices) {
  fs::create_directories(folder_of(base));
  // Several processes may do this at the same time, on several machines.
  const std::string suffix = temporary_suffix();
  const std::array<std::span<const std::byte>, 3> data{std::as_bytes(indices.document_index),
                                                       std::as_bytes(indices.sample_index),
                                                       std::as_bytes(indices.shuffle_index)};
  std::array<std::uint64_t, 3> checksums{};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    write_file(array_file(base, arrays[i]), npy_header(arrays[i]), data[i], suffix);
    checksums[i] = checksum(data[i]);
  }
  write_file(file_of(base, "description.txt"), description(specification_text, arrays, checksums),
             {}, suffix);
}

}  // namespace

GptIndices cached_gpt_indices(const fs::path& folder, std::span<const std::int32_t> lengths,
                              const GptIndexSpec& spec) {
  const std::string text = specification(lengths, spec);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  const fs::path base = folder / fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  const ArraySpecs arrays = array_specs(spec, plan_epochs(count_tokens(lengths), spec));

  std::error_code unreadable;
  if (fs::exists(file_of(base, "description.txt"), unreadable)) {
    try {
      return load(base, text, arrays);
    } catch (const Error& error) {
      log_warning("the cached data indices are damaged and are built anew: {}", error.what());
    }
  }
  GptIndices indices = build_gpt_indices(lengths, spec);
  try {
    store(base, text, arrays, indices);
  } catch (const std::runtime_error& error) {  // ours, or the file system's
    log_warning("the data indices could not be cached: {}", error.what());
  }
  return indices;
}

}  // namespace tessera
