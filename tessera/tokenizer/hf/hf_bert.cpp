#include "tessera/tokenizer/hf/hf_bert.h"

#include <utility>

#include "tessera/tokenizer/hf/hf_unicode.h"

namespace tessera {

void remove_characters(HfText& text, bool (*removes)(char32_t)) {
  std::string out;
  bool is_first = true;
  each_character(text.text, [&](char32_t c) {
    if (!removes(c))
      append_utf8(out, c);
    else if (is_first)
      text.at_start = false;
    is_first = false;
  });
  text.text = std::move(out);
}

void lowercase(HfText& text) {
  std::string out;
  each_character(text.text, [&](char32_t c) { append_hf_lowercase(out, c); });
  text.text = std::move(out);
}

BertNormalizer::BertNormalizer(const HfNode& node) {
  node.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  clean_text_ = node.at("clean_text").flag();
  handle_chinese_ = node.at("handle_chinese_chars").flag();
  lowercase_ = node.at("lowercase").flag();
  strip_accents_ = node.flag_or("strip_accents", lowercase_);
}

void BertNormalizer::normalize(HfText& text) const {
  if (clean_text_) {
    remove_characters(text, is_hf_cleaned);
    std::string out;
    each_character(text.text, [&](char32_t c) { append_utf8(out, is_whitespace(c) ? U' ' : c); });
    text.text = std::move(out);
  }
  if (handle_chinese_) {
    std::string out;
    each_character(text.text, [&](char32_t c) {
      const bool spaced = is_hf_chinese(c);
      if (spaced) out += ' ';
      append_utf8(out, c);
      if (spaced) out += ' ';
    });
    text.text = std::move(out);
  }
  if (strip_accents_) {
    text.text = to_normal_form(text.text, NormalForm::nfd);
    remove_characters(text, is_hf_nonspacing);
  }
  if (lowercase_) lowercase(text);
}

}  // namespace tessera
