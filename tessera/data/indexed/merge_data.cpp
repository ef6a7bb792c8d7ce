#include "tessera/data/indexed/merge_data.h"

#include <algorithm>
#include <optional>

#include "tessera/base/check.h"
#include "tessera/base/folder_lock.h"
#include "tessera/base/log.h"
#include "tessera/data/files/output_check.h"
#include "tessera/data/indexed/indexed_dataset.h"
#include "tessera/data/indexed/indexed_dataset_writer.h"

namespace tessera {
namespace {

constexpr std::string_view kIndexEnding = ".idx";

std::string prefix_of(const std::string& name) {
  return name.ends_with(kIndexEnding) ? name.substr(0, name.size() - kIndexEnding.size()) : name;
}

void check_pair(const std::string& prefix, bool overwrite) {
  check_output_folder(prefix, "the output prefix");
  for (const char* ending : {".bin", ".idx"})
    check_may_write(prefix + ending, overwrite, "--output-prefix");
}

// Names of parts. What says what a pair holds stays at the end: chats_document becomes
// chats_0_document, beside chats_0_mask.
struct PartNames {
  explicit PartNames(const std::string& output) : start(output + "_") {
    for (const std::string_view kind : {"_document", "_mask"}) {
      if (!output.ends_with(kind)) continue;
      start = output.substr(0, output.size() - kind.size()) + "_";
      ending = kind;
    }
  }
  std::string start, ending;
};

// A pair of an older split into more parts would be taken for one of this.
void check_no_others(const PartNames& names, const std::vector<std::string>& outputs) {
  const std::string start = fs::path(names.start).filename().string();
  for (const auto& entry : fs::directory_iterator(folder_of(names.start))) {
    const std::string name = entry.path().filename().string();
    const std::string ending = names.ending + std::string(kIndexEnding);
    if (name.size() < start.size() + ending.size() || !name.starts_with(start) ||
        !name.ends_with(ending))
      continue;
    const std::string number =
        name.substr(start.size(), name.size() - start.size() - ending.size());
    const bool numbered =
        !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
    const bool ours = std::any_of(outputs.begin(), outputs.end(), [&](const std::string& each) {
      return fs::path(each).filename().string() == prefix_of(name);
    });
    check_input(!numbered || ours,
                "'{}' is there from another split, and would be taken for a part of this one: "
                "remove it, or give another --output-prefix",
                entry.path().string());
  }
}

// The .bin file of an input must not be replaced while it is read, under whatever name.
void check_not_input(const std::string& output, const std::string& input) {
  check_is_no_input(output + ".bin", input + ".bin", "--output-prefix");
}

// Keeps two commands from writing to the same prefix: each would replace half of the other's pair.
class OutputLock {
 public:
  explicit OutputLock(const std::string& prefix) : folder_(prefix + ".partial") {
    make_folders(folder_);
    lock_.emplace(folder_);
  }
  ~OutputLock() {
    std::error_code ignored;  // what stays behind is in nobody's way
    fs::remove(folder_ / ".lock", ignored);
    fs::remove(folder_, ignored);  // unless preprocess left something there
  }
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  fs::path folder_;
  std::optional<FolderLock> lock_;
};

// A pair whose memory is given back as it is read.
class Pair {
 public:
  explicit Pair(const std::string& prefix)
      : data_(prefix), bin_(prefix + ".bin"), token_bytes_(element_size(data_.table().type())) {}

  const IndexTable& table() const { return data_.table(); }
  void log_table_warning() const {
    if (!table().warning().empty()) log_warning("{}", table().warning());
  }

  void copy_document(std::int64_t document, IndexedDatasetWriter& writer) {
    const IndexTable& index = table();
    for (std::int64_t i = index.document_start(document); i < index.document_start(document + 1);
         ++i) {
      const auto bytes = static_cast<std::size_t>(index.length(i)) * token_bytes_;
      writer.add_stored(bin_.bytes().subspan(static_cast<std::size_t>(index.start(i)), bytes));
      copied_ += bytes;
    }
    writer.end_document();
    if (copied_ < kForgetBytes) return;
    bin_.forget();
    copied_ = 0;
  }

 private:
  static constexpr std::size_t kForgetBytes = std::size_t{1} << 24;

  IndexedDataset data_;
  MappedFile bin_;
  std::size_t token_bytes_;
  std::size_t copied_ = 0;
};

}  // namespace

DataCounts merge_data(const std::vector<std::string>& inputs, const std::string& output,
                      bool overwrite) {
  check_input(!inputs.empty(), "nothing to merge: give at least one --input");
  check_pair(output, overwrite);
  const OutputLock lock(output);
  check_pair(output, overwrite);  // another may have finished it
  const std::string first = prefix_of(inputs.front());
  const TokenType type = Pair(first).table().type();
  for (const std::string& input : inputs) {  // all are checked before anything is copied
    const std::string prefix = prefix_of(input);
    check_not_input(output, prefix);
    const Pair pair(prefix);
    pair.log_table_warning();
    check_input(pair.table().type() == type,
                "'{}' holds tokens of type {}, but '{}' of type {}: pairs of one tokenizer can be "
                "merged",
                prefix, to_string(pair.table().type()), first, to_string(type));
  }
  IndexedDatasetWriter writer(output, type);
  for (const std::string& input : inputs) {
    Pair pair(prefix_of(input));
    for (std::int64_t d = 0; d < pair.table().documents(); ++d) pair.copy_document(d, writer);
  }
  writer.finish();
  return {writer.documents(), writer.sequences(), writer.tokens()};
}

std::vector<std::string> split_data(const std::string& input, std::int64_t partitions,
                                    const std::string& output, bool overwrite) {
  Pair pair(prefix_of(input));
  pair.log_table_warning();
  const std::int64_t documents = pair.table().documents();
  check_input(partitions >= 1, "--partitions must be 1 or more, got {}", partitions);
  check_input(partitions <= documents,
              "--partitions {} is more than the {} documents of '{}': give fewer", partitions,
              documents, prefix_of(input));
  const std::size_t digits = std::to_string(partitions - 1).size();
  const PartNames names(output);
  std::vector<std::string> outputs;
  for (std::int64_t p = 0; p < partitions; ++p) {
    outputs.push_back(fmt::format("{}{:0{}}{}", names.start, p, digits, names.ending));
    check_pair(outputs.back(), overwrite);
    check_not_input(outputs.back(), prefix_of(input));
  }
  const OutputLock lock(output);
  check_no_others(names, outputs);
  std::int64_t d = 0;
  for (std::int64_t p = 0; p < partitions; ++p) {
    IndexedDatasetWriter writer(outputs[static_cast<std::size_t>(p)], pair.table().type());
    const std::int64_t count = documents / partitions + (p < documents % partitions ? 1 : 0);
    for (const std::int64_t end = d + count; d < end; ++d) pair.copy_document(d, writer);
    writer.finish();
  }
  return outputs;
}

}  // namespace tessera
