// The flags of preprocess, and of merge-data and split-data, which share some of them.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr CommandSet kDataTools = {Command::preprocess, Command::merge_data, Command::split_data};

constexpr IntegerRange kLineBytes = {1, std::int64_t{1} << 30};
constexpr IntegerRange kCommitBytes = {1, std::int64_t{1} << 50};

template <class Access>
Flag size_flag(std::string_view name, Access access, IntegerRange range, std::string_view help) {
  Flag flag = make_flag(name, Arity::one, "SIZE", help);
  flag.set = [access, range](Settings& s, const Values& values) {
    access(s) = parse_size(values.at(0), range);
  };
  flag.get = [access](const Settings& s) { return Values{size_text(access(s))}; };
  return flag;
}

bool reads_texts(const Settings& s) { return s.preprocess.chat_template.empty(); }

Flag restart_flag() {
  Flag flag = toggle("restart", at(&PreprocessOptions::restart),
                     "discard the progress of a killed run and start from the beginning")
                  .never_shown();
  flag.command_line_only = true;
  return flag;
}

std::vector<Flag> shared_flags() {
  return {
      texts("input", at(&PreprocessOptions::inputs), "FILE", kMaxPathBytes,
            "prefixes or .idx files of pairs; may be given several times")
          .which_means(Command::preprocess,
                       "JSON-lines files, one document a line, or .txt files, one document each; "
                       ".gz and .zst too; patterns (*, ?, [a-z]) are sorted; may be given several "
                       "times")
          .which_means(Command::tokenize,
                       "text, or with --decode token numbers; - is standard input; may be given "
                       "several times")
          .which_means(Command::train_tokenizer,
                       "JSON-lines files (.jsonl, .json, .ndjson) or plain text (all others); .gz "
                       "and .zst too; "
                       "patterns (*, ?, [a-z]) are sorted; may be given several times")
          .only_for({Command::preprocess, Command::merge_data, Command::split_data,
                     Command::tokenize, Command::train_tokenizer})
          .must_be_given(),
      path("output-prefix", at(&PreprocessOptions::output_prefix), "PREFIX",
           "write PREFIX_<key>_document.bin and .idx")
          .which_means(Command::merge_data, "write PREFIX.bin and .idx")
          .which_means(Command::split_data, "write PREFIX_0.bin, PREFIX_0.idx and so on")
          .must_be_given(),
      toggle("overwrite", at(&PreprocessOptions::overwrite), "replace existing files")
          .only_for({Command::preprocess, Command::merge_data, Command::split_data,
                     Command::tokenize, Command::train_tokenizer, Command::evaluate}),
  };
}

std::vector<Flag> preprocess_flags() {
  return {
      texts("json-keys", at(&PreprocessOptions::json_keys), "KEY", 256,
            "JSON keys of a document that hold text")
          .only_if(reads_texts, "texts (without --chat-template)")
          .only_for({Command::preprocess, Command::train_tokenizer}),
      toggle("append-eod", at(&PreprocessOptions::append_eod),
             "append an end-of-document token to each document")
          .only_if(reads_texts, "texts (without --chat-template)"),
      path("chat-template", at(&PreprocessOptions::chat_template), "NAME or FILE",
           "format lines as conversations with a template: chatml, gemma, llama3, mistral, or a "
           "JSON file. Writes PREFIX_messages_document and PREFIX_messages_mask"),
      integer("workers", at(&PreprocessOptions::workers), {0, 4096},
              "tokenizer threads; 0 means one per core"),
      word("on-error", at(&PreprocessOptions::on_error),
           {{OnError::fail, "fail"}, {OnError::skip, "skip"}}, "how to handle an unusable line"),
      toggle("save-errors", at(&PreprocessOptions::save_errors),
             "list skipped lines in PREFIX.errors.jsonl")
          .only_if([](const Settings& s) { return s.preprocess.on_error == OnError::skip; },
                   "--on-error skip"),
      size_flag("max-line-size", at(&PreprocessOptions::max_line_bytes), kLineBytes,
                "maximum size of a line or a text, such as 64MiB"),
      size_flag("commit-interval", at(&PreprocessOptions::commit_bytes), kCommitBytes,
                "amount of text between two points from which a killed run can resume"),
      restart_flag(),
  };
}

}  // namespace

void append_preprocess_flags(std::vector<Flag>& table) {
  append(table, Group::preprocessing, kDataTools, shared_flags());
  append(table, Group::preprocessing, {Command::preprocess}, preprocess_flags());
  append(table, Group::preprocessing, {Command::split_data},
         {integer("partitions", at(&SplitDataOptions::partitions), {1, kMaxIterations},
                  "number of pairs to split into")
              .must_be_given()});
}

}  // namespace tessera::config
