#include "tessera/data/preprocess/preprocess_work.h"

#include <span>

#include "tessera/base/check.h"
#include "tessera/data/files/array_cache.h"
#include "tessera/data/files/output_check.h"
#include "tessera/tokenizer/tokenizer_files.h"

namespace tessera {
namespace {

constexpr int kVersion = 1;
constexpr const char* kRunFile = "run.json";
constexpr const char* kStateFile = "state.json";

bool is_there(const fs::path& path) {
  std::error_code ignored;  // what cannot be examined cannot be opened either, and is named then
  return fs::exists(path, ignored);
}

// It will be removed with all that is in it.
void check_is_ours(const fs::path& folder) {
  check_input(fs::is_directory(folder), "'{}' is in the way: it is no folder", folder.string());
  if (is_there(folder / kRunFile)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    check_input(name == ".lock" || name.starts_with(kRunFile),
                "'{}' is in the way: it holds '{}', and nothing of a run that was stopped",
                folder.string(), name);
  }
}

// What was damaged here cannot be fixed by running the same command again.
[[noreturn]] void fail_damaged(const InputError& error) {
  fail_input("{}\nthe run that was stopped cannot go on: drop it with --restart", error.what());
}

Json read_work_file(const fs::path& file) {
  try {
    return parse_json(read_text_file(file), file.string());
  } catch (const InputError& error) {
    fail_damaged(error);
  }
}

// Of names that are no UTF-8, what can be shown.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const PreprocessState& state) {
  Json outputs = Json::array();
  for (const SpoolPosition& each : state.outputs)
    outputs.push_back({each.tokens, each.sequences, each.documents});
  return {{"at", {state.at.file, state.at.line, state.at.bytes}},
          {"outputs", outputs},
          {"bytes", state.bytes},
          {"skipped", state.skipped},
          {"first_error", state.first_error},
          {"error_bytes", state.error_bytes},
          {"complete", state.complete}};
}

std::int64_t natural(const Json& value) {
  const auto number = value.get<std::int64_t>();
  if (number < 0 || !value.is_number_integer()) throw std::out_of_range("not a size");
  return number;
}

PreprocessState state_from_json(const Json& json) {
  PreprocessState state;
  const Json& at = json.at("at");
  state.at = {natural(at.at(0)), natural(at.at(1)), natural(at.at(2))};
  for (const Json& each : json.at("outputs"))
    state.outputs.push_back({natural(each.at(0)), natural(each.at(1)), natural(each.at(2))});
  state.bytes = natural(json.at("bytes"));
  state.skipped = natural(json.at("skipped"));
  state.first_error = json.value("first_error", "");
  state.error_bytes = natural(json.at("error_bytes"));
  state.complete = json.at("complete").get<bool>();
  return state;
}

Json flags_of(const TokenizerOptions& options) {
  return {options.vocab_size, options.include_special_tokens,
          static_cast<int>(options.tiktoken_pattern), options.tiktoken_num_special_tokens,
          options.tiktoken_special_tokens};
}

// Their contents, in 16 digits each: they may have moved.
Json files_of(const TokenizerOptions& options) {
  Json checksums = Json::array();
  for (const TokenizerFile& file : tokenizer_files(options)) {
    const std::string text = read_text_file(file.path);
    checksums.push_back(fmt::format("{:016x}", bytes_checksum(std::as_bytes(std::span(text)))));
  }
  return checksums;
}

// What a tokenizer makes of a sample: a mistake is seen at once.
Json sample_tokens(const Tokenizer& tokenizer) {
  try {
    return tokenizer.encode(
        "The quick brown fox 1234567 \n\t don't  \xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80 {x}");
  } catch (const InputError&) {
    return nullptr;
  }
}

// Of two lists of inputs.
std::string difference(const Json& before, const Json& now) {
  if (before.size() != now.size())
    return fmt::format("there were {} inputs, there are {}", before.size(), now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (before[i] == now[i]) continue;
    if (before[i][0] != now[i][0])
      return fmt::format("input {} was {}, is {}", i + 1, before[i][0].dump(), now[i][0].dump());
    return fmt::format("{} was changed: it had {} bytes, has {}{}", now[i][0].dump(),
                       before[i][1].dump(), now[i][1].dump(),
                       before[i][2] == now[i][2] ? "" : ", and another time");
  }
  return "the list of inputs was another one";
}

void check_same_run(const Json& before, const Json& now, const fs::path& folder) {
  std::string changes;
  for (const auto& [name, value] : now.items()) {
    if (before.contains(name) && before[name] == value) continue;
    const std::string was = before.contains(name) ? before[name].dump() : "nothing";
    changes += "\n  - ";
    changes += name == "inputs" && before.contains(name)
                   ? difference(before[name], value)
                   : fmt::format("{} was {:.200}, is {:.200}", name, was, value.dump());
  }
  check_input(changes.empty(),
              "'{}' holds a run that was stopped, and that differs from this one:{}\nmake them "
              "equal to go on with it, or drop it with --restart",
              folder.string(), changes);
}

}  // namespace

Json describe_run(const PreprocessOptions& options, const std::vector<InputFile>& files,
                  const Tokenizer& tokenizer) {
  const bool chats = !options.chat_template.empty();
  Json inputs = Json::array();
  for (const InputFile& file : files)
    inputs.push_back({file.path.string(), file.size, file.modified});
  Json run{{"format", kVersion},
           {"inputs", inputs},
           {"--json-keys", chats ? Json() : Json(options.json_keys)},
           {"--append-eod", options.append_eod},
           {"--max-line-size", options.max_line_bytes},
           {"the tokenizer's kind", static_cast<int>(options.tokenizer.kind)},
           {"the tokenizer's flags", flags_of(options.tokenizer)},
           {"the tokenizer's files", files_of(options.tokenizer)},
           {"the tokenizer's vocabulary", tokenizer.vocab_size()},
           {"the tokenizer's end of document",
            options.append_eod ? Json(tokenizer.eod()) : Json(nullptr)},
           {"the tokenizer's sample", sample_tokens(tokenizer)}};
  if (chats) run["--chat-template"] = chat_template_json(read_chat_template(options.chat_template));
  return Json::parse(text_of(run));  // as it will be read back
}

PreprocessWork::PreprocessWork(const PreprocessOptions& options, std::vector<OutputFile> outputs,
                               const Json& run)
    : options_(options), outputs_(std::move(outputs)), folder_(options.output_prefix + ".partial") {
  const bool is_new = !is_there(folder_);
  if (is_new || options.restart) check_outputs();
  if (!is_new) check_is_ours(folder_);
  make_folders(folder_);
  lock_.emplace(folder_);
  state_.outputs.resize(outputs_.size());
  if (options.restart) forget();
  try {
    if (is_there(folder_ / kStateFile))
      take_up(run);
    else
      begin(run);
  } catch (...) {
    keep_or_remove();
    throw;
  }
}

void PreprocessWork::begin(const Json& run) {
  check_outputs();
  write_file_atomically(folder_ / kRunFile, text_of(run));
}

void PreprocessWork::take_up(const Json& run) {
  const fs::path file = folder_ / kStateFile;
  check_same_run(read_work_file(folder_ / kRunFile), run, folder_);
  try {
    state_ = state_from_json(read_work_file(file));
  } catch (const Json::exception& error) {
    fail_input("'{}' is not a state of preprocessing: {}; drop it with --restart", file.string(),
               reason_of(error));
  } catch (const std::out_of_range&) {
    fail_input("'{}' holds a number that cannot be: drop it with --restart", file.string());
  }
  check_input(state_.outputs.size() == outputs_.size() &&
                  state_.at.file <= static_cast<std::int64_t>(run.at("inputs").size()),
              "'{}' and '{}' do not fit together: drop them with --restart", file.string(),
              kRunFile);
  check_input(state_.skipped == 0 || options_.on_error == OnError::skip,
              "'{}' holds a run that skipped {} bad documents: go on with --on-error skip, or drop "
              "it with --restart",
              folder_.string(), state_.skipped);
  if (!state_.complete) check_outputs();
  if (!state_.complete) check_spools();
  resumed_ = true;
}

// Opened once, files that are shorter than the state says are found before anything is read.
void PreprocessWork::check_spools() const {
  try {
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      TokenSpool(base(outputs_[k]), outputs_[k].type, state_.outputs[k]);
    if (options_.save_errors) AppendFile(errors_file(), state_.error_bytes);
  } catch (const InputError& error) {
    fail_damaged(error);
  }
}

void PreprocessWork::check_outputs() const {
  std::vector<std::string> names;
  for (const OutputFile& output : outputs_)
    for (const char* ending : {".bin", ".idx"}) names.push_back(output.prefix + ending);
  if (options_.save_errors) names.push_back(options_.output_prefix + ".errors.jsonl");
  for (const std::string& name : names)
    check_may_write(name, options_.overwrite, "--output-prefix");
}

void PreprocessWork::commit(const PreprocessState& state) {
  write_file_atomically(folder_ / kStateFile, text_of(to_json(state)));
  state_ = state;
}

void PreprocessWork::publish() {
  const fs::path errors = options_.output_prefix + ".errors.jsonl";
  if (options_.overwrite && !options_.save_errors) {  // an old list is not about the new pairs
    std::error_code error;
    fs::remove(errors, error);
    check(!error, "cannot remove the old '{}': {}", errors.string(), error.message());
  }
  for (const OutputFile& output : outputs_) publish_spool(base(output), output.prefix);
  if (options_.save_errors && is_there(errors_file())) rename_durably(errors_file(), errors);
  remove();
}

void PreprocessWork::forget() {
  std::error_code ignored;  // then there is none
  fs::remove(folder_ / kStateFile, ignored);
}

bool PreprocessWork::keep_or_remove() {
  const bool keep = is_there(folder_ / kStateFile);
  if (!keep) remove();
  return keep;
}

// The state almost last: killed in between, a complete run is still known as one. What says that
// the folder is ours goes after it.
void PreprocessWork::remove() {
  std::error_code ignored;  // what stays behind is in nobody's way
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const fs::path name = entry.path().filename();
    if (name != kStateFile && name != kRunFile && name != ".lock")
      fs::remove(entry.path(), ignored);
  }
  for (const char* name : {kStateFile, kRunFile, ".lock"}) fs::remove(folder_ / name, ignored);
  fs::remove(folder_, ignored);
}

}  // namespace tessera
