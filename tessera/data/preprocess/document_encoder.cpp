#include "tessera/data/preprocess/document_encoder.h"

#include <limits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

struct Mark {
  std::size_t tokens, lengths, sequences;
};

Mark mark_of(const EncodedDocuments& out) {
  return {out.tokens.size(), out.lengths.size(), out.sequences.size()};
}

void cut_back(EncodedDocuments& out, const Mark& mark) {
  out.tokens.resize(mark.tokens);
  out.lengths.resize(mark.lengths);
  out.sequences.resize(mark.sequences);
}

}  // namespace

std::vector<OutputFile> output_files(const PreprocessOptions& options, std::int64_t vocab_size) {
  const TokenType type = token_type_for_vocab(vocab_size);
  if (!options.chat_template.empty())
    return {{"messages", options.output_prefix + "_messages_document", type},
            {"mask", options.output_prefix + "_messages_mask", TokenType::u8}};
  std::vector<OutputFile> files;
  for (const std::string& key : options.json_keys)
    files.push_back({key, fmt::format("{}_{}_document", options.output_prefix, key), type});
  return files;
}

DocumentEncoder::DocumentEncoder(const PreprocessOptions& options,
                                 const std::vector<InputFile>& files, const Tokenizer& tokenizer)
    : options_(options), files_(files), tokenizer_(tokenizer) {
  if (!options.chat_template.empty())
    chat_.emplace(read_chat_template(options.chat_template), tokenizer);
}

void EncodedDocuments::append_to(TokenSpool& spool) const {
  std::span<const std::int32_t> rest = tokens;
  std::size_t sequence = 0;
  for (const std::int32_t count : sequences) {
    for (std::int32_t i = 0; i < count; ++i) {
      const auto length = static_cast<std::size_t>(lengths[sequence++]);
      spool.add_sequence(rest.first(length));
      rest = rest.subspan(length);
    }
    spool.end_document();
  }
}

std::string DocumentEncoder::where(const RawDocument& document) const {
  const std::string file = files_[document.file].shown();
  return document.line == 0 ? file : fmt::format("{} line {}", file, document.line);
}

EncodedBatch DocumentEncoder::encode(const DocumentBatch& batch) const {
  EncodedBatch out{.keys = std::vector<EncodedDocuments>(chat_ ? 2 : options_.json_keys.size()),
                   .bad = {},
                   .end = batch.end,
                   .bytes = batch.bytes,
                   .file_bytes = batch.file_bytes};
  JsonTexts json(options_.json_keys);
  std::vector<Mark> marks(out.keys.size());
  for (const RawDocument& document : batch.documents) {
    for (std::size_t k = 0; k < out.keys.size(); ++k) marks[k] = mark_of(out.keys[k]);
    try {
      add_document(batch, document, json, out.keys);
    } catch (const InputError& error) {  // then none of its keys gets anything
      for (std::size_t k = 0; k < out.keys.size(); ++k) cut_back(out.keys[k], marks[k]);
      out.bad.push_back({document.file, document.line, error.what()});
    }
  }
  return out;
}

void DocumentEncoder::add_document(const DocumentBatch& batch, const RawDocument& document,
                                   JsonTexts& json, std::vector<EncodedDocuments>& keys) const {
  if (document.too_long)
    fail_input("{} has more than {} bytes: split it, or raise --max-line-size", where(document),
               options_.max_line_bytes);
  const std::string_view text = batch.of(document);
  if (chat_) return add_chat(text, where(document), keys);
  if (document.line == 0) return add_texts({&text, 1}, document, 0, keys[0]);
  json.read(text, where(document));
  for (std::size_t k = 0; k < keys.size(); ++k) add_texts(json.texts()[k], document, k, keys[k]);
}

void DocumentEncoder::add_chat(std::string_view line, const std::string& where,
                               std::vector<EncodedDocuments>& keys) const {
  ChatLine reader;
  const std::span<const ChatMessage> messages = reader.read(line, where);
  EncodedChat chat;
  try {
    chat = chat_->encode(messages);
  } catch (const InputError& error) {
    fail_input("{}: {}", where, error.what());
  }
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  if (chat.tokens.size() > kMost)
    fail_input("{}: {} tokens are more than the {} of a sequence: split it", where,
               chat.tokens.size(), kMost);
  const auto add = [](const std::vector<std::int32_t>& values, EncodedDocuments& out) {
    out.tokens.insert(out.tokens.end(), values.begin(), values.end());
    out.lengths.push_back(static_cast<std::int32_t>(values.size()));
    out.sequences.push_back(1);
  };
  add(chat.tokens, keys[0]);
  add(chat.mask, keys[1]);
}

// Texts without tokens make no sequence; the end of the document goes to the last that has some.
void DocumentEncoder::add_texts(std::span<const std::string_view> texts,
                                const RawDocument& document, std::size_t key,
                                EncodedDocuments& out) const {
  const std::size_t first = out.lengths.size();
  const auto name = [&] {
    return document.line == 0
               ? where(document)
               : fmt::format("{}, key '{}'", where(document), options_.json_keys[key]);
  };
  for (const std::string_view text : texts) {
    std::vector<std::int32_t> tokens;
    try {
      tokens = tokenizer_.encode(text);
    } catch (const InputError& error) {
      fail_input("{}: {}", name(), error.what());
    }
    if (tokens.empty()) continue;
    constexpr auto kMost = std::numeric_limits<std::int32_t>::max() - 1;  // EOD may follow
    if (tokens.size() > kMost)
      fail_input("{}: {} tokens are more than the {} of a sequence: split it", name(),
                 tokens.size(), kMost);
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    out.lengths.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  const std::size_t count = out.lengths.size() - first;
  if (options_.append_eod && count > 0) {
    out.tokens.push_back(tokenizer_.eod());
    ++out.lengths.back();
  }
  out.sequences.push_back(static_cast<std::int32_t>(count));
}

}  // namespace tessera
