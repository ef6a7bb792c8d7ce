// See the header for the format of the file.
#include "tessera/kernels/cuda/gemm/gemm_autotune_cache.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "tessera/base/log.h"

namespace tessera::cuda {
namespace {

constexpr std::string_view kHeading =
    "# The fastest algorithms found for matrix products. Deleting this file only means timing "
    "again.\n";
// A file beyond this size is refused rather than read into memory; a line takes a few hundred
// bytes.
constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::size_t kDigits = 16;  // of a word in hex

// FNV-1a: detects damaged lines, which must not reach the library as an algorithm.
std::uint64_t checksum(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// The line format of the header. The checksum covers everything before it, tabs included.
std::string line_of(const std::string& key, const GemmAlgorithm& algorithm) {
  std::string line = key + '\t';
  for (const std::uint64_t word : algorithm) line += fmt::format("{:016x}", word);
  return line + fmt::format("\t{:016x}\n", checksum(line));
}

// Exactly 16 hex digits, so that a cut or padded word is damage rather than a smaller number.
std::optional<std::uint64_t> word_of(std::string_view digits) {
  std::uint64_t word = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, word, 16);
  if (digits.size() != kDigits || result.ec != std::errc() || result.ptr != end) return {};
  return word;
}

// The words of cuBLASLt's opaque record, in memory order of this machine: files are not portable
// between byte orders, and need not be, since they hold for one GPU model.
std::optional<GemmAlgorithm> algorithm_of(std::string_view digits) {
  GemmAlgorithm algorithm;
  if (digits.size() != kDigits * algorithm.size()) return {};
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    const std::optional<std::uint64_t> word = word_of(digits.substr(i * kDigits, kDigits));
    if (!word) return {};
    algorithm[i] = *word;
  }
  return algorithm;
}

// The key and the algorithm of a line written by line_of, without its line end. Split from the
// right, since the key itself contains a tab between setting and problem.
std::optional<std::pair<std::string, GemmAlgorithm>> parse(std::string_view line) {
  const std::size_t end = line.rfind('\t');
  if (end == line.npos || end == 0) return {};
  const std::size_t key_end = line.rfind('\t', end - 1);
  if (key_end == line.npos || word_of(line.substr(end + 1)) != checksum(line.substr(0, end)))
    return {};
  const auto algorithm = algorithm_of(line.substr(key_end + 1, end - key_end - 1));
  if (!algorithm) return {};
  return {{std::string(line.substr(0, key_end)), *algorithm}};
}

}  // namespace

GemmAutotuneCache::GemmAutotuneCache(fs::path file, std::string setting)
    : file_(std::move(file)), setting_(std::move(setting)) {
  try {
    // Neither damaged nor foreign lines stop a run. Foreign ones are kept in the file for the
    // setups that they belong to.
    const Report report = read();
    if (report.damaged + report.foreign > 0)
      log_warning(
          "the gemm file '{}': {} damaged line(s) and {} line(s) for another device or another "
          "version of cuBLASLt are not used",
          file_.string(), report.damaged, report.foreign);
  } catch (const std::exception& error) {
    warn(error);
  }
}

std::optional<GemmAlgorithm> GemmAutotuneCache::find(const std::string& problem) const {
  const auto found = algorithms_.find(key_of(problem));
  if (found == algorithms_.end()) return {};
  return found->second;
}

void GemmAutotuneCache::store(const std::string& problem, const GemmAlgorithm& algorithm) {
  algorithms_[key_of(problem)] = algorithm;
  update_file();
}

std::string GemmAutotuneCache::text() const {
  std::string lines;
  // The map is sorted by key, so all ranks produce their lines in the same order.
  for (const auto& [key, algorithm] : algorithms_)
    if (key.starts_with(setting_ + '\t')) lines += line_of(key, algorithm);
  return lines;
}

// `text` goes in first, because add() keeps entries that are already there; then the own ones that
// it does not have.
void GemmAutotuneCache::take(std::string_view text) {
  auto own = std::exchange(algorithms_, {});
  add(text);
  algorithms_.merge(own);
  update_file();
}

// Reads first, so that lines written by other runs meanwhile are kept.
void GemmAutotuneCache::update_file() {
  if (file_.empty()) return;
  try {
    read();
    write();
  } catch (const std::exception& error) {
    warn(error);
  }
}

GemmAutotuneCache::Report GemmAutotuneCache::read() {
  // A missing file is the normal state of the first run.
  if (file_.empty() || !fs::exists(file_)) return {};
  return add(read_text_file(file_, kLargestFile));
}

GemmAutotuneCache::Report GemmAutotuneCache::add(std::string_view lines) {
  Report report;
  for (std::string_view rest = lines; !rest.empty();) {
    // find() gives npos for a last line without line end, and substr clips it.
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    auto parsed = parse(line);
    if (!parsed) {
      ++report.damaged;
      continue;
    }
    if (!parsed->first.starts_with(setting_ + '\t')) ++report.foreign;
    algorithms_.insert(std::move(*parsed));  // existing entries win
  }
  return report;
}

void GemmAutotuneCache::write() const {
  // Lines of all settings, not only ours: several GPU models may share a file.
  std::string text(kHeading);
  for (const auto& [key, algorithm] : algorithms_) text += line_of(key, algorithm);
  if (file_.has_parent_path()) make_folders(file_.parent_path());
  // Atomic, so that a reader never sees half a file; the suffix keeps concurrent writers apart.
  write_file_atomically(file_, text, temporary_suffix());
}

// A missing file only means timing again in the next run, so errors are warnings, logged once.
void GemmAutotuneCache::warn(const std::exception& error) {
  if (std::exchange(warned_, true)) return;
  log_warning("autotuned matrix products may be lost, the gemm file cannot be used: {}",
              error.what());
}

}  // namespace tessera::cuda
