#include "tessera/tokenizer/hf/hf_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "tessera/tokenizer/bpe/bpe.h"
#include "tessera/tokenizer/bpe/byte_alphabet.h"
#include "tessera/tokenizer/sentencepiece/unigram.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

class BpeModel : public HfModel {
 public:
  explicit BpeModel(const BpeSpec& spec) : bpe_(spec) {}

  void encode(const HfPieces& pieces, std::vector<std::int32_t>& tokens) const override {
    BpeEncoder encoder(bpe_);
    for (std::size_t i = 0; i < pieces.spans.size(); ++i) encoder.encode(pieces[i], tokens);
  }

 private:
  Bpe bpe_;
};

// "a b", or ["a", "b"] since 2024.
BpeSpec::Merge read_merge(const HfNode& node) {
  if (node.value().is_array()) {
    const std::vector<HfNode> pair = node.items();
    if (pair.size() != 2) node.refuse("two tokens were expected, but there are {}", pair.size());
    return {pair[0].text(), pair[1].text()};
  }
  const std::string& both = node.text();
  const std::size_t space = both.find(' ');
  if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos)
    node.refuse("two tokens with a space between them were expected, but this is '{:.100}'", both);
  return {both.substr(0, space), both.substr(space + 1)};
}

// As bytes: a token with other characters than the 256 can never come out of bytes.
void turn_to_bytes(BpeSpec& spec) {
  std::vector<std::pair<std::string, std::int32_t>> tokens;
  for (auto& [token, id] : spec.tokens)
    if (auto bytes = bytes_of_alphabet(token)) tokens.emplace_back(std::move(*bytes), id);
  std::vector<BpeSpec::Merge> merges;
  for (const BpeSpec::Merge& merge : spec.merges) {
    auto left = bytes_of_alphabet(merge.left), right = bytes_of_alphabet(merge.right);
    if (left && right) merges.push_back({std::move(*left), std::move(*right)});
  }
  spec.tokens = std::move(tokens);
  spec.merges = std::move(merges);
}

std::unique_ptr<HfModel> make_bpe(const HfNode& node, const HfVocabulary& vocabulary, bool bytes) {
  node.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                   "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                   "merges"});
  if (const auto dropout = node.find("dropout"); dropout && dropout->number() != 0)
    dropout->refuse("merges that are left out at random are not supported; set it to null");
  BpeSpec spec;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (vocabulary.find(vocabulary.tokens[i]) == static_cast<std::int32_t>(i))
      spec.tokens.emplace_back(vocabulary.tokens[i], static_cast<std::int32_t>(i));
  for (const HfNode& merge : node.at("merges").items()) spec.merges.push_back(read_merge(merge));
  spec.ignore_merges = node.flag_or("ignore_merges", false);
  if (bytes) {
    turn_to_bytes(spec);
    return node.placed([&] { return std::make_unique<BpeModel>(spec); });
  }
  spec.characters = true;
  spec.fuse_unk = node.flag_or("fuse_unk", false);
  spec.byte_fallback = node.flag_or("byte_fallback", false);
  spec.continuing_prefix = node.text_or("continuing_subword_prefix", "");
  spec.end_suffix = node.text_or("end_of_word_suffix", "");
  if (const std::string unk = node.text_or("unk_token", ""); !unk.empty()) {
    spec.unk = vocabulary.find(unk);
    if (*spec.unk < 0) node.at("unk_token").refuse("'{:.100}' is not in the vocabulary", unk);
  }
  return node.placed([&] { return std::make_unique<BpeModel>(spec); });
}

// A score as the original reads it: digits as one whole number, which is rounded, and then a power
// of ten, which rounds again. Where two ways to cut a text are all but equal, the last bit decides.
double rounded_twice(double score) {
  std::array<char, 32> text{};
  const auto [end, error] =
      std::to_chars(text.begin(), text.end(), std::abs(score), std::chars_format::scientific);
  if (error != std::errc{} || !std::isfinite(score)) return score;
  const char* mark = std::find(text.begin(), end, 'e');
  std::uint64_t digits = 0;
  int exponent = 0;
  for (const char* at = text.begin(); at < mark; ++at)
    if (*at != '.') digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
  std::from_chars(mark[1] == '+' ? mark + 2 : mark + 1, end, exponent);
  exponent -= static_cast<int>(std::max<std::ptrdiff_t>(mark - text.begin() - 2, 0));
  auto value = static_cast<double>(digits);
  constexpr int kLargest = 308;
  for (; exponent < -kLargest; exponent += kLargest) value /= 1e308;
  // What is not whole is correctly rounded, also where pow is not.
  double power = 1;
  const std::string name = fmt::format("1e{}", std::abs(exponent));
  std::from_chars(name.data(), name.data() + name.size(), power);
  return std::copysign(exponent < 0 ? value / power : value * power, score);
}

class UnigramModel : public HfModel {
 public:
  UnigramModel(const HfNode& node, const HfVocabulary& vocabulary)
      : vocabulary_(vocabulary),
        model_tokens_(static_cast<std::int32_t>(vocabulary.tokens.size())),
        what_(node.where()),
        unigram_(make_search(node, vocabulary)) {
    node.allow_only({"type", "unk_id", "vocab", "byte_fallback"});
    if (const auto unk = node.find("unk_id"))
      unk_ = static_cast<std::int32_t>(
          unk->integer(0, static_cast<std::int64_t>(vocabulary.tokens.size()) - 1));
    if (!node.flag_or("byte_fallback", false)) return;
    for (int byte = 0; byte < 256; ++byte)
      bytes_.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)));
  }

  void encode(const HfPieces& pieces, std::vector<std::int32_t>& tokens) const override {
    for (std::size_t i = 0; i < pieces.spans.size(); ++i) encode_piece(pieces[i], tokens);
  }

 private:
  static Unigram make_search(const HfNode& node, const HfVocabulary& vocabulary) {
    std::vector<std::pair<std::string, std::int32_t>> entries;
    std::vector<double> scores;
    double lowest = std::numeric_limits<double>::infinity();
    for (const HfNode& entry : node.at("vocab").items()) {
      const auto id = static_cast<std::int32_t>(scores.size());
      scores.push_back(rounded_twice(entry.items()[1].number()));
      lowest = std::min(lowest, scores.back());
      entries.emplace_back(vocabulary.tokens[static_cast<std::size_t>(id)], id);
    }
    return Unigram(std::move(entries), std::move(scores), lowest - 10.0, Unigram::Sums::doubles);
  }

  void encode_piece(std::string_view piece, std::vector<std::int32_t>& tokens) const {
    std::size_t at = 0, unknown = 0;  // unknown: where the run of unknown characters starts
    for (const Unigram::Segment& segment : unigram_.segment(piece)) {
      const bool is_unknown = segment.id == Unigram::kUnknown || segment.id == unk_;
      if (!is_unknown) {
        append_unknown(piece.substr(unknown, at - unknown), tokens);
        tokens.push_back(segment.id);
        unknown = segment.end;
      }
      at = segment.end;
    }
    append_unknown(piece.substr(unknown), tokens);
  }

  // A run of unknown characters is one token: one that has just this text, its bytes, or unk.
  void append_unknown(std::string_view run, std::vector<std::int32_t>& tokens) const {
    if (run.empty()) return;
    const std::int32_t known = vocabulary_.find(std::string(run));
    const auto has = [this](char c) { return bytes_[static_cast<unsigned char>(c)] >= 0; };
    if (known >= 0 && known < model_tokens_) {  // added tokens are found elsewhere
      tokens.push_back(known);
    } else if (!bytes_.empty() && std::all_of(run.begin(), run.end(), has)) {
      for (const char c : run) tokens.push_back(bytes_[static_cast<unsigned char>(c)]);
    } else {
      check_input(unk_ >= 0,
                  "{}: '{:.60}' is not in the vocabulary, and there is no unk_id to stand for it",
                  what_, run);
      tokens.push_back(unk_);
    }
  }

  const HfVocabulary& vocabulary_;  ///< grows by added tokens
  std::int32_t model_tokens_;       ///< of it, before that
  std::string what_;
  Unigram unigram_;
  std::int32_t unk_ = -2;  // none; -1 is the search's own
  std::vector<std::int32_t> bytes_;
};

class WordPieceModel : public HfModel {
 public:
  explicit WordPieceModel(const HfNode& node, const HfVocabulary& vocabulary) {
    node.allow_only(
        {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
    const HfNode unk = node.at("unk_token");
    unk_ = vocabulary.find(unk.text());
    if (unk_ < 0) unk.refuse("'{:.100}' is not in the vocabulary", unk.text());
    longest_ = node.at("max_input_chars_per_word").integer(0, std::int64_t{1} << 32);
    const std::string& prefix = node.at("continuing_subword_prefix").text();
    std::vector<std::pair<std::string, std::int32_t>> starts, rests;
    for (const auto& [token, id] : vocabulary.ids) {
      starts.emplace_back(token, id);
      if (token.starts_with(prefix)) rests.emplace_back(token.substr(prefix.size()), id);
    }
    starts_ = PrefixTrie(std::move(starts));
    rests_ = PrefixTrie(std::move(rests));
  }

  void encode(const HfPieces& pieces, std::vector<std::int32_t>& tokens) const override {
    for (std::size_t i = 0; i < pieces.spans.size(); ++i) encode_word(pieces[i], tokens);
  }

 private:
  // The longest token at each place; one place without any, and the whole word is unknown.
  void encode_word(std::string_view word, std::vector<std::int32_t>& tokens) const {
    const auto starts_character = [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    };
    const std::size_t before = tokens.size();
    bool known = std::count_if(word.begin(), word.end(), starts_character) <= longest_;
    for (std::size_t at = 0; known && at < word.size();) {
      const auto match = (at == 0 ? starts_ : rests_).longest(word.substr(at));
      known = match.has_value();
      if (!known) break;
      tokens.push_back(match->value);
      at += match->length;
    }
    if (known) return;
    tokens.resize(before);
    tokens.push_back(unk_);
  }

  PrefixTrie starts_, rests_;
  std::int64_t longest_;
  std::int32_t unk_;
};

}  // namespace

bool can_encode_bytes(const HfNode& model, const HfVocabulary& vocabulary) {
  if (hf_model_type(model) != "BPE") return false;
  if (!model.text_or("continuing_subword_prefix", "").empty()) return false;
  if (!model.text_or("end_of_word_suffix", "").empty()) return false;
  for (int byte = 0; byte < 256; ++byte)
    if (vocabulary.find(alphabet_of_bytes(std::string(1, static_cast<char>(byte)))) < 0)
      return false;
  return true;
}

std::unique_ptr<HfModel> make_hf_model(const HfNode& model, const HfVocabulary& vocabulary,
                                       bool bytes) {
  const std::string type = hf_model_type(model);
  if (type == "BPE") return make_bpe(model, vocabulary, bytes);
  if (type == "Unigram") return std::make_unique<UnigramModel>(model, vocabulary);
  if (type == "WordPiece") return std::make_unique<WordPieceModel>(model, vocabulary);
  model.refuse("the model '{:.100}' is not supported; supported are BPE, Unigram and WordPiece",
               type);
}

}  // namespace tessera
