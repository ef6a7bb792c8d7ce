#include "tessera/tokenizer/hf/hf_normalizer.h"

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "tessera/tokenizer/bpe/byte_alphabet.h"
#include "tessera/tokenizer/hf/hf_bert.h"
#include "tessera/tokenizer/hf/hf_pattern.h"
#include "tessera/tokenizer/hf/hf_precompiled.h"
#include "tessera/tokenizer/hf/hf_unicode.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// Most of them are a function of the text.
class NormalizerFunction : public HfNormalizer {
 public:
  explicit NormalizerFunction(std::function<void(HfText&)> function)
      : function_(std::move(function)) {}
  void normalize(HfText& text) const override { function_(text); }

 private:
  std::function<void(HfText&)> function_;
};

using MadeNormalizer = std::unique_ptr<HfNormalizer>;
MadeNormalizer make(std::function<void(HfText&)> function) {
  return std::make_unique<NormalizerFunction>(std::move(function));
}

class NormalizerSequence : public HfNormalizer {
 public:
  explicit NormalizerSequence(const HfNode& node) {
    node.allow_only({"type", "normalizers"});
    for (const HfNode& step : node.at("normalizers").items())
      steps_.push_back(make_hf_normalizer(step));
  }
  void normalize(HfText& text) const override {
    for (const auto& step : steps_) step->normalize(text);
  }

 private:
  std::vector<MadeNormalizer> steps_;
};

void replace(HfText& text, const HfPattern& pattern, const std::string& content) {
  std::string out;
  std::size_t at = 0;
  for (const Piece& piece : pattern.matches(text.text)) {
    const std::string_view part = std::string_view(text.text).substr(at, piece.end - at);
    if (piece.matched) {
      // What comes instead counts as standing where the last character did.
      const bool one = decode_utf8(part, 0).length == part.size();
      if (at == 0 && (content.empty() || !one)) text.at_start = false;
      out += content;
    } else {
      out += part;
    }
    at = piece.end;
  }
  text.text = std::move(out);
}

void strip(HfText& text, bool left, bool right) {
  const std::string& whole = text.text;
  std::size_t begin = 0, end = whole.size();
  while (left && begin < end) {
    const CodePoint c = decode_utf8(whole, begin);
    if (!is_whitespace(c.value)) break;
    begin += c.length;
  }
  std::size_t last = begin;  // the end of the last character that is no whitespace
  for (std::size_t at = begin; right && at < whole.size();) {
    const CodePoint c = decode_utf8(whole, at);
    at += c.length;
    if (!is_whitespace(c.value)) last = at;
  }
  if (right) end = last;
  if (begin > 0) text.at_start = false;
  text.text = whole.substr(begin, end - begin);
}

// What SentencePiece's rule "nmt" removes, and what it takes for a space.
bool nmt_removes(char32_t c) {
  return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}
bool nmt_spaces(char32_t c) {
  return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

void nmt(HfText& text) {
  remove_characters(text, nmt_removes);
  std::string out;
  each_character(text.text, [&](char32_t c) { append_utf8(out, nmt_spaces(c) ? U' ' : c); });
  text.text = std::move(out);
}

MadeNormalizer make_form(const HfNode& node, NormalForm form) {
  node.allow_only({"type"});
  return make([form](HfText& text) { text.text = to_normal_form(text.text, form); });
}

MadeNormalizer make_replace_normalizer(const HfNode& node) {
  node.allow_only({"type", "pattern", "content"});
  return make([pattern = HfPattern(node.at("pattern")), content = node.at("content").text()](
                  HfText& text) { replace(text, pattern, content); });
}

MadeNormalizer make_strip_normalizer(const HfNode& node) {
  node.allow_only({"type", "strip_left", "strip_right"});
  return make([left = node.at("strip_left").flag(),
               right = node.at("strip_right").flag()](HfText& text) { strip(text, left, right); });
}

MadeNormalizer make_prepend(const HfNode& node) {
  node.allow_only({"type", "prepend"});
  return make([before = node.at("prepend").text()](HfText& text) {
    if (!text.text.empty()) text.text.insert(0, before);
  });
}

MadeNormalizer make_plain_normalizer(const HfNode& node, void (*function)(HfText&)) {
  node.allow_only({"type"});
  return make(function);
}

}  // namespace

std::unique_ptr<HfNormalizer> make_hf_normalizer(const HfNode& node) {
  const std::string& type = node.at("type").text();
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(node);
  if (type == "NFC") return make_form(node, NormalForm::nfc);
  if (type == "NFD") return make_form(node, NormalForm::nfd);
  if (type == "NFKC") return make_form(node, NormalForm::nfkc);
  if (type == "NFKD") return make_form(node, NormalForm::nfkd);
  if (type == "Replace") return make_replace_normalizer(node);
  if (type == "Strip") return make_strip_normalizer(node);
  if (type == "Prepend") return make_prepend(node);
  if (type == "Lowercase") return make_plain_normalizer(node, lowercase);
  if (type == "StripAccents")
    return make_plain_normalizer(node, [](HfText& text) { remove_characters(text, is_hf_accent); });
  if (type == "Nmt") return make_plain_normalizer(node, nmt);
  if (type == "ByteLevel")
    return make_plain_normalizer(node,
                                 [](HfText& text) { text.text = alphabet_of_bytes(text.text); });
  if (type == "BertNormalizer") {
    return make([bert = BertNormalizer(node)](HfText& text) { bert.normalize(text); });
  }
  if (type == "Precompiled") {
    return make([table = HfPrecompiled(node)](HfText& text) { table.normalize(text); });
  }
  node.refuse("the normalizer '{:.100}' is not supported", type);
}

}  // namespace tessera
