#include "tessera/tokenizer/hf/hf_pre_tokenizer.h"

#include <utility>

#include "tessera/tokenizer/bpe/byte_alphabet.h"
#include "tessera/tokenizer/hf/hf_metaspace.h"
#include "tessera/tokenizer/hf/hf_pattern.h"
#include "tessera/tokenizer/hf/hf_unicode.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using MadePreTokenizer = std::unique_ptr<HfPreTokenizer>;

// Cuts every piece where `find` (text to matches) says.
template <class Find>
void split(HfPieces& pieces, const Find& find, SplitBehavior behavior) {
  std::vector<HfPieces::Span> spans;
  for (std::size_t i = 0; i < pieces.spans.size(); ++i) {
    const HfPieces::Span whole = pieces.spans[i];
    std::size_t at = 0;
    for (const Piece& piece : apply_behavior(find(pieces[i]), behavior)) {
      if (piece.matched)
        spans.push_back({whole.begin + at, whole.begin + piece.end, whole.at_start && at == 0});
      at = piece.end;
    }
  }
  pieces.spans = std::move(spans);
}

// Every character of a class is a match.
HfMatches find_class(std::string_view text, bool (*in_class)(char32_t)) {
  HfMatches matches;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += c.length;
    const bool matched = in_class(c.value);
    if (!matched && !matches.empty() && !matches.back().matched)
      matches.back().end = at;
    else
      matches.push_back({at, matched});
  }
  return matches;
}

class ClassSplit : public HfPreTokenizer {
 public:
  ClassSplit(bool (*in_class)(char32_t), SplitBehavior behavior)
      : in_class_(in_class), behavior_(behavior) {}
  void apply(HfPieces& pieces) const override {
    split(
        pieces, [this](std::string_view text) { return find_class(text, in_class_); }, behavior_);
  }

 private:
  bool (*in_class_)(char32_t);
  SplitBehavior behavior_;
};

class PatternSplit : public HfPreTokenizer {
 public:
  explicit PatternSplit(const HfNode& node)
      : pattern_(node.at("pattern")), behavior_(parse_split_behavior(node.at("behavior"))) {
    node.allow_only({"type", "pattern", "behavior", "invert"});
    invert_ = node.at("invert").flag();
  }
  void apply(HfPieces& pieces) const override {
    split(
        pieces,
        [this](std::string_view text) {
          HfMatches matches = pattern_.matches(text);
          if (invert_)
            for (Piece& piece : matches) piece.matched = !piece.matched;
          return matches;
        },
        behavior_);
  }

 private:
  HfPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Whitespace: runs of \w, and runs of what is neither that nor \s.
class WordSplit : public HfPreTokenizer {
 public:
  void apply(HfPieces& pieces) const override { split(pieces, words, SplitBehavior::removed); }

 private:
  static HfMatches words(std::string_view text) {
    HfMatches matches;
    int previous = -1;
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = decode_utf8(text, at);
      at += c.length;
      const int kind = is_hf_word(c.value) ? 0 : is_whitespace(c.value) ? 1 : 2;
      if (kind == previous)
        matches.back().end = at;
      else
        matches.push_back({at, kind == 1});
      previous = kind;
    }
    return matches;
  }
};

class BertSplit : public HfPreTokenizer {
 public:
  void apply(HfPieces& pieces) const override {
    ClassSplit(is_whitespace, SplitBehavior::removed).apply(pieces);
    ClassSplit(is_hf_punctuation, SplitBehavior::isolated).apply(pieces);
  }
};

class ByteLevel : public HfPreTokenizer {
 public:
  ByteLevel(const HfNode& node, bool keeps_bytes) : keeps_bytes_(keeps_bytes) {
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    prefix_space_ = node.at("add_prefix_space").flag();
    if (node.flag_or("use_regex", true)) splitter_ = make_splitter(kGpt2Pattern);
  }

  void apply(HfPieces& pieces) const override {
    if (prefix_space_) add_spaces(pieces);
    if (splitter_)
      split(
          pieces, [this](std::string_view text) { return find_pieces(*splitter_, text); },
          SplitBehavior::isolated);
    if (keeps_bytes_) return;
    HfPieces mapped;
    for (std::size_t i = 0; i < pieces.spans.size(); ++i)
      mapped.append(alphabet_of_bytes(pieces[i]), pieces.spans[i].at_start);
    pieces = std::move(mapped);
  }

 private:
  static void add_spaces(HfPieces& pieces) {
    HfPieces spaced;
    for (std::size_t i = 0; i < pieces.spans.size(); ++i) {
      const std::string_view piece = pieces[i];
      if (piece.starts_with(' '))
        spaced.append(piece, pieces.spans[i].at_start);
      else
        spaced.append(" " + std::string(piece), pieces.spans[i].at_start);
    }
    pieces = std::move(spaced);
  }

  bool prefix_space_, keeps_bytes_;
  std::unique_ptr<Splitter> splitter_;
};

class PreTokenizerSequence : public HfPreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<MadePreTokenizer> steps) : steps_(std::move(steps)) {}
  void apply(HfPieces& pieces) const override {
    for (const auto& step : steps_) step->apply(pieces);
  }

 private:
  std::vector<MadePreTokenizer> steps_;
};

class Metaspace : public HfPreTokenizer {
 public:
  explicit Metaspace(const HfNode& node) : metaspace_(node) {}
  void apply(HfPieces& pieces) const override {
    HfPieces replaced;
    for (std::size_t i = 0; i < pieces.spans.size(); ++i)
      replaced.append(metaspace_.replace(pieces[i], pieces.spans[i].at_start),
                      pieces.spans[i].at_start);
    pieces = std::move(replaced);
    if (metaspace_.splits())
      split(
          pieces, [this](std::string_view text) { return metaspace_.matches(text); },
          SplitBehavior::merged_with_next);
  }

 private:
  HfMetaspace metaspace_;
};

HfPreTokenizers make_pre_tokenizer_sequence(const HfNode& node, bool bytes) {
  node.allow_only({"type", "pretokenizers"});
  const std::vector<HfNode> nodes = node.at("pretokenizers").items();
  std::vector<MadePreTokenizer> steps;
  HfPreTokenizers made;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    HfPreTokenizers step = make_hf_pre_tokenizer(nodes[i], bytes && i + 1 == nodes.size());
    made.makes_bytes = step.makes_bytes;
    steps.push_back(std::move(step.steps));
  }
  made.steps = std::make_unique<PreTokenizerSequence>(std::move(steps));
  return made;
}

MadePreTokenizer make_punctuation(const HfNode& node) {
  node.allow_only({"type", "behavior"});
  const auto behavior = node.find("behavior");
  return std::make_unique<ClassSplit>(
      is_hf_punctuation, behavior ? parse_split_behavior(*behavior) : SplitBehavior::isolated);
}

MadePreTokenizer make_digits(const HfNode& node) {
  node.allow_only({"type", "individual_digits"});
  return std::make_unique<ClassSplit>(is_hf_numeric, node.at("individual_digits").flag()
                                                         ? SplitBehavior::isolated
                                                         : SplitBehavior::contiguous);
}

template <class Step, class... Args>
MadePreTokenizer make_plain_pre_tokenizer(const HfNode& node, Args... args) {
  node.allow_only({"type"});
  return std::make_unique<Step>(args...);
}

}  // namespace

HfPreTokenizers make_hf_pre_tokenizer(const HfNode& node, bool bytes_if_possible) {
  const std::string& type = node.at("type").text();
  if (type == "Sequence") return make_pre_tokenizer_sequence(node, bytes_if_possible);
  if (type == "ByteLevel")
    return {std::make_unique<ByteLevel>(node, bytes_if_possible), bytes_if_possible};
  if (type == "Split") return {std::make_unique<PatternSplit>(node)};
  if (type == "Metaspace") return {std::make_unique<Metaspace>(node)};
  if (type == "Digits") return {make_digits(node)};
  if (type == "Punctuation") return {make_punctuation(node)};
  if (type == "Whitespace") return {make_plain_pre_tokenizer<WordSplit>(node)};
  if (type == "WhitespaceSplit")
    return {make_plain_pre_tokenizer<ClassSplit>(node, is_whitespace, SplitBehavior::removed)};
  if (type == "BertPreTokenizer") return {make_plain_pre_tokenizer<BertSplit>(node)};
  node.refuse("the pre-tokenizer '{:.100}' is not supported", type);
}

}  // namespace tessera
