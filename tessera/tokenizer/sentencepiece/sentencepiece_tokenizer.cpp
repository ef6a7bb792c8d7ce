#include "tessera/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_bpe.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using Type = SentencePieceModel::Type;

PrefixTrie user_defined(const SentencePieceModel& model) {
  std::vector<std::pair<std::string, std::int32_t>> entries;
  for (std::size_t i = 0; i < model.pieces.size(); ++i)
    if (model.pieces[i].type == Type::user_defined)
      entries.emplace_back(model.pieces[i].text, static_cast<std::int32_t>(i));
  return PrefixTrie(std::move(entries));
}

// SentencePiece's own numbers, rounded where it rounds them.
Unigram make_unigram(const SentencePieceModel& model) {
  float lowest = std::numeric_limits<float>::max();
  for (const auto& piece : model.pieces)
    if (piece.type == Type::normal) lowest = std::min(lowest, piece.score);
  std::vector<std::pair<std::string, std::int32_t>> pieces;
  std::vector<double> scores(model.pieces.size());
  for (const auto& [text, id] : model.ids) {
    const Type type = model.type(id);
    if (type == Type::unused) continue;
    pieces.emplace_back(text, id);
    // Better than other ways to cover the same text, whose scores are logarithms of probabilities;
    // and of two user-defined pieces and one, the one wins.
    scores[static_cast<std::size_t>(id)] =
        type == Type::user_defined
            ? static_cast<float>(0.1 * (static_cast<double>(text.size()) - 1))
            : model.pieces[static_cast<std::size_t>(id)].score;
  }
  return Unigram(std::move(pieces), std::move(scores), lowest - 10.0f, Unigram::Sums::floats);
}

// Bytes as text; each that is no UTF-8 becomes U+FFFD.
void append_bytes(const std::string& bytes, std::string& text) {
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint c = decode_utf8(bytes, at);
    const bool valid = c.value != kInvalidCodePoint;
    append_utf8(text, valid ? c.value : kReplacementCharacter);
    at += valid ? c.length : 1;
  }
}

std::string with_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const std::size_t end = std::min(piece.find(kSpaceSymbol), piece.size());
    text += piece.substr(0, end);
    if (end == piece.size()) break;
    text += ' ';
    piece.remove_prefix(end + kSpaceSymbol.size());
  }
  return text;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel model, const std::string& what,
                                               bool add_bos)
    : model_(std::move(model)),
      what_(what),
      user_defined_(user_defined(model_)),
      normalizer_(model_.normalizer, model_.whitespace_is_suffix, user_defined_,
                  what + ": normalizer_spec") {
  if (!model_.denormalizer.charsmap.empty())
    denormalizer_.emplace(model_.denormalizer, false, PrefixTrie(), what + ": denormalizer_spec");
  if (model_.kind == SentencePieceModel::Kind::unigram) unigram_ = make_unigram(model_);
  if (model_.byte_fallback)
    for (int byte = 0; byte < 256; ++byte)
      byte_ids_.push_back(model_.id_of(fmt::format("<0x{:02X}>", byte)));
  if (add_bos) {
    bos_ = control_id(model_.bos_piece);
    check_input(bos_.has_value(),
                "{}: no control piece '{}', which a Llama 2 tokenizer puts before every text: "
                "--tokenizer-type GPTSentencePieceTokenizer does without",
                what, model_.bos_piece);
  }
}

std::optional<std::int32_t> SentencePieceTokenizer::control_id(const std::string& piece) const {
  const std::int32_t id = model_.id_of(piece);
  if (model_.type(id) != Type::control) return std::nullopt;
  return id;
}

std::int32_t SentencePieceTokenizer::eod() const {
  const auto id = control_id(model_.eos_piece);
  check_input(id.has_value(),
              "{}: no control piece '{}', so there is nothing to end a document with. Train the "
              "model with an end-of-sequence piece (spm_train --eos_id), or {}",
              what_, model_.eos_piece, kWithoutEod);
  return *id;
}

void SentencePieceTokenizer::append(std::string_view piece, std::int32_t id, bool after_unknown,
                                    std::vector<std::int32_t>& tokens) const {
  if (id != model_.unknown_id) {
    tokens.push_back(id);
  } else if (!byte_ids_.empty()) {
    for (const char c : piece) tokens.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  } else if (!after_unknown) {  // neighbouring unknown pieces are one
    tokens.push_back(id);
  }
}

void SentencePieceTokenizer::encode_to(std::string_view text,
                                       std::vector<std::int32_t>& tokens) const {
  if (bos_) tokens.push_back(*bos_);
  encode_plain_to(text, true, tokens);
}

SpecialTokens SentencePieceTokenizer::special_tokens() const {
  SpecialTokens tokens;
  for (std::size_t i = 0; i < model_.pieces.size(); ++i)
    if (model_.pieces[i].type == Type::control)
      tokens.emplace_back(model_.pieces[i].text, static_cast<std::int32_t>(i));
  return tokens;
}

void SentencePieceTokenizer::encode_plain_to(std::string_view text, bool,
                                             std::vector<std::int32_t>& tokens) const {
  const std::string normalized = normalizer_.normalize(text);
  bool after_unknown = false;
  const auto add = [&](std::string_view piece, std::int32_t id) {
    append(piece, id, after_unknown, tokens);
    after_unknown = id == model_.unknown_id;
  };
  if (!unigram_) {
    for (const auto& segment : merge_by_score(model_, user_defined_, normalized))
      add(segment.text, segment.id);
    return;
  }
  std::size_t at = 0;
  for (const Unigram::Segment& segment : unigram_->segment(normalized)) {
    const std::string_view piece = std::string_view(normalized).substr(at, segment.end - at);
    add(piece, segment.id == Unigram::kUnknown ? model_.unknown_id : segment.id);
    at = segment.end;
  }
}

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> tokens) const {
  check_in_vocabulary(tokens, vocab_size());
  const bool strips =
      model_.normalizer.add_dummy_prefix || model_.normalizer.remove_extra_whitespaces;
  std::string text, bytes;
  bool at_start = true, start_seen = false;
  for (const std::int32_t token : tokens) {
    const std::int32_t id = model_.id_of(model_.text(token));
    std::string_view piece = model_.text(id);
    if (model_.type(id) == Type::byte) {
      bytes.push_back(static_cast<char>(std::stoi(std::string(piece.substr(3, 2)), nullptr, 16)));
      continue;
    }
    append_bytes(bytes, text);
    bytes.clear();
    // The space that normalizing put before the first piece goes; with remove_extra_whitespaces
    // all that lead do.
    if (start_seen || !text.empty()) at_start = false;
    start_seen = false;
    if (model_.type(id) == Type::control) continue;
    if (id == model_.unknown_id) {
      text += model_.unknown_surface;
      continue;
    }
    if (at_start && strips && piece.starts_with(kSpaceSymbol)) {
      piece.remove_prefix(kSpaceSymbol.size());
      start_seen = !model_.normalizer.remove_extra_whitespaces;
    }
    text += with_spaces(piece);
  }
  append_bytes(bytes, text);
  return denormalizer_ ? denormalizer_->normalize(text) : text;
}

std::int32_t SentencePieceTokenizer::find(std::string_view token) const {
  const std::int32_t id = model_.id_of(token);
  return model_.text(id) == token ? id : -1;
}

std::string SentencePieceTokenizer::piece(std::int32_t token) const {
  check_in_vocabulary({&token, 1}, vocab_size());
  return model_.text(token);
}

std::unique_ptr<Tokenizer> read_sentencepiece(const fs::path& path, bool add_bos) {
  const fs::path file = fs::is_directory(path) ? path / "tokenizer.model" : path;
  const std::string bytes = read_text_file(file);
  check_input(
      !bytes.starts_with('{'),
      "'{}' is JSON, not a model of SentencePiece: try --tokenizer-type HuggingFaceTokenizer",
      file.string());
  return std::make_unique<SentencePieceTokenizer>(parse_sentencepiece(bytes, file.string()),
                                                  file.string(), add_bos);
}

}  // namespace tessera
