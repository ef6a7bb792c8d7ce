#include "tessera/tokenizer/hf/hf_tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr std::array<const char*, 5> kEodNames = {
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

// Files of other tokenizers, which would be refused for reasons that say little.
void check_is_object(std::string_view text, const fs::path& file) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  check_input(begin != text.npos && text[begin] == '{',
              "'{}' is no tokenizer.json, which begins with '{{': for a .model of SentencePiece "
              "give --tokenizer-type SentencePieceTokenizer or Llama2Tokenizer, for a .tiktoken "
              "file TikTokenizer",
              file.string());
}

bool is_vocabulary_alone(const Json& document) {
  return document.is_object() && !document.empty() &&
         std::all_of(document.begin(), document.end(),
                     [](const Json& each) { return each.is_number_integer(); });
}

// eos_token is a text, or an added token with its options.
std::string named_eos(const fs::path& file) {
  if (!fs::is_regular_file(file)) return "";
  const Json document = parse_json(read_text_file(file), file.string());
  const auto eos = HfNode(document, file.string()).find("eos_token");
  if (!eos) return "";
  return eos->value().is_object() ? eos->at("content").text() : eos->text();
}

}  // namespace

HfTokenizer::HfTokenizer(std::string_view text, const std::string& what, const HfOptions& options)
    : HfTokenizer(HfNode(parse_json(text, what), what), what, options) {}

HfTokenizer::HfTokenizer(const HfNode& root, const std::string& what, const HfOptions& options)
    : what_(what), options_(options) {
  read(root);
}

void HfTokenizer::read(const HfNode& root) {
  if (is_vocabulary_alone(root.value()))
    root.refuse(
        "this is a vocabulary alone, as GPT-2's vocab.json: give --tokenizer-type "
        "GPT2BPETokenizer, with the file as --vocab-file and merges.txt as --merge-file");
  root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                   "pre_tokenizer", "post_processor", "decoder", "model"});
  if (const auto version = root.find("version"); version && version->text() != "1.0")
    version->refuse("version '{:.40}' is not known; known is 1.0", version->text());
  const HfNode model = root.at("model");
  vocabulary_ = read_hf_vocabulary(model);
  const bool can_bytes = can_encode_bytes(model, vocabulary_);
  if (const auto pre = root.find("pre_tokenizer")) pre_ = make_hf_pre_tokenizer(*pre, can_bytes);
  model_ = make_hf_model(model, vocabulary_, pre_.makes_bytes);
  if (const auto id = model.find("unk_id"))
    unknown_ = static_cast<std::int32_t>(id->integer(0, vocab_size() - 1));
  else
    unknown_ = vocabulary_.find(model.text_or("unk_token", ""));
  if (const auto normalizer = root.find("normalizer"))
    normalizer_ = make_hf_normalizer(*normalizer);
  if (const auto added = root.find("added_tokens"))
    added_ = HfAddedTokens(*added, vocabulary_, normalizer_.get());
  if (const auto decoder = root.find("decoder")) decoder_ = make_hf_decoder(*decoder);
  if (const auto post = root.find("post_processor"))
    template_ = read_hf_post_processor(*post, vocab_size());
}

void HfTokenizer::encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const {
  std::string fixed;
  if (!is_valid_utf8(text)) text = fixed = to_valid_utf8(text);
  const bool wraps = options_.add_special_tokens;
  if (wraps) tokens.insert(tokens.end(), template_.before.begin(), template_.before.end());
  encode_by(&HfAddedTokens::split, text, true, tokens);
  if (wraps) tokens.insert(tokens.end(), template_.after.begin(), template_.after.end());
}

void HfTokenizer::encode_plain_to(std::string_view text, bool at_start,
                                  std::vector<std::int32_t>& tokens) const {
  std::string fixed;
  if (!is_valid_utf8(text)) text = fixed = to_valid_utf8(text);
  encode_by(&HfAddedTokens::split_plain, text, at_start, tokens);
}

SpecialTokens HfTokenizer::special_tokens() const {
  SpecialTokens tokens = added_.special();
  std::erase_if(tokens, [&](const auto& each) { return each.second == unknown_; });
  return tokens;
}

void HfTokenizer::encode_by(Split split, std::string_view text, bool at_start,
                            std::vector<std::int32_t>& tokens) const {
  for (const HfAddedTokens::Part& part : (added_.*split)(text, false)) {
    if (part.id >= 0)
      tokens.push_back(part.id);
    else
      encode_part(split, part.text, at_start && part.text.data() == text.data(), tokens);
  }
}

void HfTokenizer::encode_part(Split split, std::string_view text, bool at_start,
                              std::vector<std::int32_t>& tokens) const {
  HfText whole{std::string(text), at_start};
  if (normalizer_) normalizer_->normalize(whole);
  HfPieces pieces;
  const auto flush = [&] {
    if (pieces.spans.empty()) return;
    if (pre_.steps) pre_.steps->apply(pieces);
    model_->encode(pieces, tokens);
    pieces = {};
  };
  for (const HfAddedTokens::Part& part : (added_.*split)(whole.text, true)) {
    if (part.id < 0) {
      pieces.append(part.text, whole.at_start && part.text.data() == whole.text.data());
      continue;
    }
    flush();
    tokens.push_back(part.id);
  }
  flush();
}

std::string HfTokenizer::decode(std::span<const std::int32_t> tokens) const {
  check_in_vocabulary(tokens, vocab_size());
  std::vector<std::string> texts;
  for (const std::int32_t token : tokens) {
    const std::string& text = vocabulary_.tokens[static_cast<std::size_t>(token)];
    // A number without a token is passed over.
    if (!text.empty() || vocabulary_.find(text) == token) texts.push_back(text);
  }
  const bool spaces = decoder_ == nullptr;  // what there is without a decoder
  if (decoder_) texts = decoder_->decode(std::move(texts));
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (spaces && i > 0) out += ' ';
    out += texts[i];
  }
  return out;
}

bool HfTokenizer::has_eod() const {
  return !options_.eos_token.empty() ||
         std::any_of(std::begin(kEodNames), std::end(kEodNames),
                     [this](const char* name) { return vocabulary_.find(name) >= 0; });
}

std::int32_t HfTokenizer::eod() const {
  if (!options_.eos_token.empty()) {
    const std::int32_t id = vocabulary_.find(options_.eos_token);
    check_input(id >= 0, "{}: eos_token '{:.100}', by the files beside it, is not a token", what_,
                options_.eos_token);
    return id;
  }
  for (const char* name : kEodNames)
    if (const std::int32_t id = vocabulary_.find(name); id >= 0) return id;
  fail_input(
      "{}: which token ends a document is not known: no eos_token is named, and none of {} is in "
      "the vocabulary. Put {{\"eos_token\": \"...\"}} into a tokenizer_config.json beside it, or "
      "{}",
      what_, fmt::format("{}", fmt::join(kEodNames, ", ")), kWithoutEod);
}

std::unique_ptr<Tokenizer> read_hf_tokenizer(const fs::path& path, HfOptions options) {
  const fs::path file = fs::is_directory(path) ? path / "tokenizer.json" : path;
  const std::string text = read_text_file(file);
  check_is_object(text, file);
  for (const char* beside : {"tokenizer_config.json", "special_tokens_map.json"})
    if (options.eos_token.empty()) options.eos_token = named_eos(file.parent_path() / beside);
  return std::make_unique<HfTokenizer>(text, file.string(), options);
}

}  // namespace tessera
