#include "tessera/tokenizer/hf/bert_files.h"

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/tokenizer/hf/hf_tokenizer.h"
#include "tessera/tokenizer/text_lines.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxBertFileBytes = std::size_t{1} << 28;
constexpr int kExtraTokens = 100;
// Longer words are unknown.
constexpr int kLongestWord = 100;

// {"token": number}. Spaces at a line's end are no part of the token.
Json read_vocabulary_lines(std::string_view text, const std::string& path) {
  check_input(is_valid_utf8(text), "'{}' is no UTF-8, and so no vocab.txt of BERT", path);
  Json vocabulary = Json::object();
  each_line(text, [&](std::string_view line, std::size_t number) {
    line = line.substr(0, skip_spaces_back(line, line.size()));
    if (line.empty()) return;
    const auto [entry, is_new] = vocabulary.emplace(std::string(line), number - 1);
    check_input(is_new, "{}:{}: the token '{:.100}' is there twice, first in line {}", path, number,
                std::string(line), entry->get<std::size_t>() + 1);
  });
  for (const char* needed : {"[UNK]", "[CLS]", "[SEP]"})
    check_input(vocabulary.contains(needed), "'{}' has no token {}: it is no vocab.txt of BERT",
                path, needed);
  return vocabulary;
}

// Those that are found in texts as they stand.
Json added_bert_tokens(const Json& vocabulary, bool with_extra) {
  Json list = Json::array();
  const auto add = [&](const std::string& content, std::int64_t id) {
    list.push_back({{"id", id},
                    {"content", content},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  };
  std::int64_t next = 0;
  for (const auto& number : vocabulary) next = std::max(next, number.get<std::int64_t>() + 1);
  for (const char* name : {"[UNK]", "[SEP]", "[CLS]", "[PAD]", "[MASK]"})
    if (vocabulary.contains(name)) add(name, vocabulary[name].get<std::int64_t>());
  for (int i = 0; with_extra && i < kExtraTokens; ++i) {
    const std::string name = fmt::format("<extra_id_{}>", i);
    add(name, vocabulary.contains(name) ? vocabulary[name].get<std::int64_t>() : next++);
  }
  return list;
}

}  // namespace

std::unique_ptr<Tokenizer> parse_bert_tokenizer(std::string_view text, const std::string& path,
                                                const BertOptions& options) {
  Json vocabulary = read_vocabulary_lines(text, path);
  const Json cls = {"[CLS]", vocabulary["[CLS]"]}, sep = {"[SEP]", vocabulary["[SEP]"]};
  const Json document = {
      {"added_tokens", added_bert_tokens(vocabulary, !options.lowercase)},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"lowercase", options.lowercase}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", {{"type", "BertProcessing"}, {"sep", sep}, {"cls", cls}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", kLongestWord},
        {"vocab", std::move(vocabulary)}}}};
  return std::make_unique<HfTokenizer>(HfNode(document, path), path,
                                       HfOptions{options.add_special_tokens, "[SEP]"});
}

std::unique_ptr<Tokenizer> read_bert_tokenizer(const std::string& path,
                                               const BertOptions& options) {
  return parse_bert_tokenizer(read_text_file(path, kMaxBertFileBytes), path, options);
}

}  // namespace tessera
