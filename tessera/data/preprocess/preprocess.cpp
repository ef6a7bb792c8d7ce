#include "tessera/data/preprocess/preprocess.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/data/files/output_check.h"
#include "tessera/data/preprocess/document_encoder.h"
#include "tessera/data/preprocess/ordered_workers.h"
#include "tessera/data/preprocess/preprocess_progress.h"
#include "tessera/data/preprocess/preprocess_work.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {
namespace {

constexpr std::int64_t kShownErrors = 10;
constexpr std::int64_t kPendingBytes = std::int64_t{1} << 26;  // of text that waits for its tokens

void check_options(const PreprocessOptions& options) {
  check_input(!options.inputs.empty(), "nothing to preprocess: give at least one --input");
  check_input(!options.output_prefix.empty(), "preprocessing needs an --output-prefix");
  check_output_folder(options.output_prefix, "the output prefix");
  check_input(options.chat_template.empty() || !options.append_eod,
              "--append-eod and --chat-template exclude each other: the template says how a "
              "conversation ends");
  check_input(options.chat_template.empty() || options.tokenizer.kind != TokenizerKind::null,
              "--chat-template needs a tokenizer of texts: choose another --tokenizer-type");
  check_input(!options.json_keys.empty(), "preprocessing needs at least one of --json-keys");
  std::set<std::string> seen;
  for (const std::string& key : options.json_keys) {
    check_input(!key.empty() && key.find('/') == std::string::npos,
                "the JSON key '{}' cannot be part of a file name", key);
    check_input(seen.insert(key).second, "--json-keys names '{}' twice", key);
  }
}

std::vector<InputFile> find_inputs(const PreprocessOptions& options) {
  std::vector<InputFile> files = find_input_files(options.inputs);
  const bool chats = !options.chat_template.empty();
  for (const InputFile& file : files) {
    check_input(!file.plain_text || !chats,
                "'{}' is one plain document, but --chat-template takes conversations: give JSON "
                "lines, or leave the template out",
                file.path.string());
    check_input(!file.plain_text || options.json_keys.size() == 1,
                "'{}' is one plain document, but --json-keys names {} outputs: give JSON lines, or "
                "one key",
                file.path.string(), options.json_keys.size());
  }
  return files;
}

// --overwrite is for outputs.
void check_inputs_stay(const PreprocessOptions& options, const std::vector<OutputFile>& outputs,
                       const std::vector<InputFile>& files) {
  std::vector<std::string> names{options.output_prefix + ".errors.jsonl"};
  for (const OutputFile& output : outputs)
    for (const char* ending : {".bin", ".idx"}) names.push_back(output.prefix + ending);
  std::error_code ignored;
  std::erase_if(names, [&](const std::string& name) { return !fs::exists(name, ignored); });
  for (const std::string& name : names)
    for (const InputFile& file : files) check_is_no_input(name, file.path, "--output-prefix");
}

// Writes batches to the spools in their order, and makes durable points.
class OutputWriter {
 public:
  OutputWriter(const PreprocessOptions& options, const std::vector<InputFile>& files,
               PreprocessWork& work)
      : options_(options), files_(files), work_(work), state_(work.state()) {
    for (const OutputFile& output : work.outputs())
      spools_.push_back(std::make_unique<TokenSpool>(work.base(output), output.type,
                                                     state_.outputs[spools_.size()]));
    if (options.save_errors) errors_.emplace(work.errors_file(), state_.error_bytes);
    sync_path(work.folder());  // the names come before the first state that speaks of them
  }

  void add(const EncodedBatch& batch, PreprocessProgress& progress) {
    for (const BadDocument& bad : batch.bad) take_bad(bad, progress);
    for (std::size_t k = 0; k < spools_.size(); ++k) batch.keys[k].append_to(*spools_[k]);
    state_.at = batch.end;
    state_.bytes += batch.bytes;
    if (state_.bytes - committed_bytes() >= options_.commit_bytes) commit();
  }

  std::int64_t documents() const { return spools_.front()->position().documents; }

  void finish() {
    check_not_all_bad();
    commit();
    for (const auto& spool : spools_) spool->finish();
    work_.check_outputs();  // somebody else may have made them meanwhile
    state_.complete = true;
    commit();
  }

 private:
  std::int64_t committed_bytes() const { return work_.state().bytes; }

  // As with a wrong key: that must not pass for success.
  void check_not_all_bad() {
    if (state_.skipped == 0 || documents() > 0) return;
    work_.forget();
    fail_input("nothing is left to write: all {} documents are bad. The first: {}", state_.skipped,
               state_.first_error);
  }

  void take_bad(const BadDocument& bad, PreprocessProgress& progress) {
    if (options_.on_error == OnError::fail) throw InputError(bad.message);
    if (state_.skipped == 0) state_.first_error = bad.message;
    if (state_.skipped < kShownErrors) {
      progress.clear();
      log_warning("skipped: {}", bad.message);
    } else if (state_.skipped == kShownErrors) {
      progress.clear();
      log_warning("further bad documents are counted{}",
                  options_.save_errors ? " and saved" : ", and saved with --save-errors");
    }
    ++state_.skipped;
    if (!errors_) return;
    const Json entry{
        {"file", files_[bad.file].path.string()}, {"line", bad.line}, {"error", bad.message}};
    const std::string line = entry.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    errors_->write(line.data(), line.size());
  }

  void commit() {
    for (std::size_t k = 0; k < spools_.size(); ++k) {
      spools_[k]->sync();
      state_.outputs[k] = spools_[k]->position();
    }
    if (errors_) errors_->sync();
    state_.error_bytes = errors_ ? errors_->size() : 0;
    work_.commit(state_);
  }

  const PreprocessOptions& options_;
  const std::vector<InputFile>& files_;
  PreprocessWork& work_;
  PreprocessState state_;
  std::vector<std::unique_ptr<TokenSpool>> spools_;
  std::optional<AppendFile> errors_;
};

std::int64_t stored_bytes(const std::vector<InputFile>& files) {
  std::int64_t sum = 0;
  for (const InputFile& file : files) sum += file.size;
  return sum;
}

// Reads here, tokenizes in threads, writes here: so the order is kept, and what is under way stays
// bounded.
void write_tokens(const PreprocessOptions& options, const std::vector<InputFile>& files,
                  const Tokenizer& tokenizer, PreprocessWork& work) {
  DocumentReader reader(files, work.state().at, static_cast<std::size_t>(options.max_line_bytes));
  const DocumentEncoder encoder(options, files, tokenizer);
  OutputWriter writer(options, files, work);
  PreprocessProgress progress(stored_bytes(files));
  const int threads = threads_or_all(options.workers);
  OrderedWorkers<DocumentBatch, EncodedBatch> workers(
      threads, [&](DocumentBatch&& batch) { return encoder.encode(batch); });
  std::int64_t pending_bytes = 0;
  const auto write_oldest = [&] {
    const EncodedBatch batch = workers.take();
    pending_bytes -= batch.bytes;
    writer.add(batch, progress);
    progress.update(batch.file_bytes, writer.documents());
  };
  const auto next_batch = [&]() -> std::optional<DocumentBatch> {
    try {
      return reader.next();
    } catch (...) {  // a mistake in what was read before comes first
      while (workers.pending() > 0) write_oldest();
      throw;
    }
  };
  while (std::optional<DocumentBatch> batch = next_batch()) {
    pending_bytes += batch->bytes;
    workers.put(std::move(*batch));
    while (workers.pending() > 2 * static_cast<std::size_t>(threads) ||
           (pending_bytes > kPendingBytes && workers.pending() > 0))
      write_oldest();
  }
  while (workers.pending() > 0) write_oldest();
  writer.finish();
}

PreprocessStats stats_of(const PreprocessState& state, bool chats) {
  PreprocessStats stats{.bytes = state.bytes, .skipped = state.skipped};
  const std::size_t count = chats ? 1 : state.outputs.size();  // a mask holds no tokens
  for (const SpoolPosition& output : std::span(state.outputs).first(count)) {
    stats.documents += output.documents;
    stats.tokens += output.tokens;
  }
  return stats;
}

}  // namespace

PreprocessStats preprocess(const PreprocessOptions& options) {
  check_options(options);
  const std::vector<InputFile> files = find_inputs(options);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.tokenizer);
  const std::vector<OutputFile> outputs = output_files(options, tokenizer->vocab_size());
  check_inputs_stay(options, outputs, files);
  PreprocessWork work(options, outputs, describe_run(options, files, *tokenizer));
  if (work.resumed())
    log_info("going on with the run in '{}': {} of {} files are done", work.folder().string(),
             work.state().at.file, files.size());
  try {
    if (!work.state().complete) write_tokens(options, files, *tokenizer, work);
  } catch (const InputChanged&) {  // no run can go on from what was read of it
    work.forget();
    work.keep_or_remove();
    throw;
  } catch (const InputError& error) {
    if (!work.keep_or_remove()) throw;
    fail_input(
        "{}\nwhat was done before is kept in '{}': the same command goes on from there, also with "
        "another --on-error or --workers; --restart drops it",
        error.what(), work.folder().string());
  } catch (...) {
    work.keep_or_remove();
    throw;
  }
  const PreprocessStats stats = stats_of(work.state(), !options.chat_template.empty());
  work.publish();
  return stats;
}

}  // namespace tessera
