#include "tessera/data/indexed/indexed_dataset.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// False when the value is not a 32-bit integer.
template <class T>
bool to_token(T value, std::int32_t& token) {
  if constexpr (std::is_integral_v<T>) {
    token = static_cast<std::int32_t>(value);
    return std::in_range<std::int32_t>(value);
  } else {
    const double wide = value;
    const bool fits = wide >= -2147483648.0 && wide <= 2147483647.0 && std::trunc(wide) == wide;
    token = fits ? static_cast<std::int32_t>(wide) : 0;
    return fits;
  }
}

// Returns how many leading values were integers of 32 bits; `from` need not be aligned.
template <class T>
std::size_t convert(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t k = 0; k < out.size(); ++k) {
    T value;
    std::memcpy(&value, from + k * sizeof(T), sizeof(T));
    if (!to_token(value, out[k])) return k;
  }
  return out.size();
}

// The name of a data set's file, which the user gave without its ending.
std::string pair_file(const std::string& prefix, const char* ending) {
  std::error_code unknown;  // opening will tell
  check_input(fs::exists(prefix + ending, unknown) || unknown,
              "there is no file '{}{}': expected the prefix of a .bin and an .idx file, as "
              "`tessera preprocess` writes them",
              prefix, ending);
  return prefix + ending;
}

}  // namespace

IndexedDataset::IndexedDataset(const std::string& prefix, std::int64_t most)
    : IndexedDataset{MappedFile(pair_file(prefix, ".idx")), MappedFile(pair_file(prefix, ".bin")),
                     prefix, most} {}

IndexedDataset::IndexedDataset(std::span<const std::byte> idx, std::span<const std::byte> bin,
                               const std::string& prefix)
    : bin_name_(prefix + ".bin"), bin_(bin), table_(idx, bin.size(), prefix + ".idx") {}

IndexedDataset::IndexedDataset(MappedFile idx, MappedFile bin, const std::string& prefix,
                               std::int64_t most)
    : idx_file_(std::move(idx)),
      bin_file_(std::move(bin)),
      bin_name_(prefix + ".bin"),
      bin_(bin_file_.bytes()),
      table_(idx_file_.bytes(), bin_.size(), prefix + ".idx", most) {}

void IndexedDataset::tokens(std::int64_t i, std::int64_t offset,
                            std::span<std::int32_t> out) const {
  check_token_range(*this, i, offset, out.size());
  dispatch_token_type(table_.type(), [&]<class T>(TypeTag<T>) {
    const std::int64_t byte = table_.start(i) + offset * static_cast<std::int64_t>(sizeof(T));
    const std::size_t good = convert<T>(bin_.data() + byte, out);
    check_input(good == out.size(),
                "'{}': sequence {}, position {} (byte {}): the {} value there is not a 32-bit "
                "integer, so not a token",
                bin_name_, i, offset + static_cast<std::int64_t>(good),
                byte + static_cast<std::int64_t>(good * sizeof(T)), to_string(table_.type()));
  });
}

}  // namespace tessera
