#include "tessera/data/preprocess.h"

#include <memory>
#include <set>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/data/indexed_dataset_writer.h"
#include "tessera/data/line_reader.h"
#include "tessera/data/tokenizer.h"

namespace tessera {
namespace {

bool is_text_file(const fs::path& path) { return path.extension() == ".txt"; }

void check_options(const PreprocessOptions& options) {
  check_input(!options.inputs.empty(), "nothing to preprocess: give at least one --input");
  check_input(!options.output_prefix.empty(), "preprocessing needs an --output-prefix");
  const fs::path folder = folder_of(options.output_prefix);
  std::error_code ignored;
  check_input(fs::is_directory(folder, ignored),
              "the folder '{}' of the output prefix does not exist", folder.string());
  check_input(!options.json_keys.empty(), "preprocessing needs at least one of --json-keys");
  std::set<std::string> seen;
  for (const std::string& key : options.json_keys) {
    check_input(!key.empty() && key.find('/') == std::string::npos,
                "the JSON key '{}' cannot be part of a file name", key);
    check_input(seen.insert(key).second, "--json-keys names '{}' twice", key);
  }
  for (const std::string& input : options.inputs)
    check_input(!is_text_file(input) || options.json_keys.size() == 1,
                "'{}' is one plain document, but --json-keys names {} outputs: give JSON lines, or "
                "one key",
                input, options.json_keys.size());
}

// Tokenizes documents and hands them to one writer per key.
class Preprocessor {
 public:
  explicit Preprocessor(const PreprocessOptions& options)
      : append_eod_(options.append_eod),
        tokenizer_(make_tokenizer(options.tokenizer, options.vocab_size)) {
    const TokenType type = token_type_for_vocab(tokenizer_->vocab_size());
    for (const std::string& key : options.json_keys) {
      const std::string prefix = fmt::format("{}_{}_document", options.output_prefix, key);
      outputs_.push_back({key, std::make_unique<IndexedDatasetWriter>(prefix, type)});
    }
  }

  void add_text_file(const fs::path& path) {
    const std::string text = read_text_file(path);
    bytes_ += static_cast<std::int64_t>(text.size());
    add_sentence(text, fmt::format("'{}'", path.string()), *outputs_.front().writer);
    end_document(*outputs_.front().writer);
  }

  void add_json_lines(const fs::path& path) {
    const bool by_name = path.extension() == ".jsonl" || path.extension() == ".json";
    const char* hint = by_name ? "" : " (read as JSON lines, since it does not end in .txt)";
    LineReader reader(path);
    std::string line;
    while (reader.next(line)) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      add_json(line, fmt::format("'{}'{} line {}", path.string(), hint, reader.number()));
    }
    bytes_ += reader.bytes();
  }

  PreprocessStats finish() {
    PreprocessStats stats{.bytes = bytes_};
    for (const Output& output : outputs_) {
      output.writer->finish();
      stats.documents += output.writer->documents();
      stats.tokens += output.writer->tokens();
    }
    return stats;
  }

 private:
  struct Output {
    std::string key;
    std::unique_ptr<IndexedDatasetWriter> writer;
  };

  void add_json(std::string_view line, const std::string& where) {
    const Json object = parse_json(line, where);
    check_input(object.is_object(), "{}: expected a JSON object, got {}", where,
                object.type_name());
    for (const Output& output : outputs_) {
      const auto value = object.find(output.key);
      check_input(value != object.end(), "{}: the object has no key '{}'", where, output.key);
      add_value(*value, fmt::format("{}, key '{}'", where, output.key), *output.writer);
      end_document(*output.writer);
    }
  }

  void add_value(const Json& value, const std::string& where, IndexedDatasetWriter& writer) {
    check_input(value.is_string() || value.is_array(),
                "{}: expected a string or an array of strings, got {}", where, value.type_name());
    if (value.is_string()) return add_sentence(value.get_ref<const std::string&>(), where, writer);
    for (const Json& sentence : value) {
      check_input(sentence.is_string(), "{}: expected an array of strings, it holds {}", where,
                  sentence.type_name());
      add_sentence(sentence.get_ref<const std::string&>(), where, writer);
    }
  }

  // A sequence is written only when the next one comes or the document ends: EOD goes to the last.
  void add_sentence(std::string_view text, const std::string& where, IndexedDatasetWriter& writer) {
    std::vector<std::int32_t> tokens;
    try {
      tokens = tokenizer_->encode(text);
    } catch (const InputError& error) {
      fail_input("{}: {}", where, error.what());
    }
    if (tokens.empty()) return;
    if (!pending_.empty()) writer.add_sequence(pending_);
    pending_ = std::move(tokens);
  }

  void end_document(IndexedDatasetWriter& writer) {
    if (append_eod_ && !pending_.empty()) pending_.push_back(tokenizer_->eod());
    writer.add_document(pending_);
    pending_.clear();
  }

  bool append_eod_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<Output> outputs_;
  std::vector<std::int32_t> pending_;
  std::int64_t bytes_ = 0;
};

}  // namespace

PreprocessStats preprocess(const PreprocessOptions& options) {
  check_options(options);
  Preprocessor preprocessor(options);
  for (const std::string& input : options.inputs) {
    if (is_text_file(input))
      preprocessor.add_text_file(input);
    else
      preprocessor.add_json_lines(input);
  }
  return preprocessor.finish();
}

}  // namespace tessera
