#include "tessera/tokenizer/hf/hf_precompiled.h"

#include <utf8proc.h>

#include <utility>

#include "tessera/tokenizer/bpe/base64.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

Charsmap read_table(const HfNode& node) {
  node.allow_only({"type", "precompiled_charsmap"});
  const auto table = node.find("precompiled_charsmap");
  if (!table) return {};
  const auto bytes = from_base64(table->text());
  if (!bytes) table->refuse("base64 was expected");
  return Charsmap(*bytes, table->where());
}

}  // namespace

HfPrecompiled::HfPrecompiled(const HfNode& node) : charsmap_(read_table(node)) {}

void HfPrecompiled::append(std::string_view grapheme, std::string& out) const {
  if (grapheme.size() < 6) {
    if (const auto rule = charsmap_.shortest(grapheme)) {
      out += rule->replacement;
      return;
    }
  }
  for (std::size_t at = 0; at < grapheme.size();) {
    const std::size_t length = decode_utf8(grapheme, at).length;
    const std::string_view one = grapheme.substr(at, length);
    const auto rule = charsmap_.shortest(one);
    out += rule ? rule->replacement : one;
    at += length;
  }
}

void HfPrecompiled::normalize(HfText& text) const {
  const std::string_view whole = text.text;
  std::string out;
  utf8proc_int32_t state = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < whole.size();) {
    const CodePoint c = decode_utf8(whole, at);
    const std::size_t next = at + c.length;
    bool ends = next == whole.size();
    if (!ends)
      ends = utf8proc_grapheme_break_stateful(
          static_cast<utf8proc_int32_t>(c.value),
          static_cast<utf8proc_int32_t>(decode_utf8(whole, next).value), &state);
    if (ends) {
      append(whole.substr(begin, next - begin), out);
      begin = next;
    }
    at = next;
  }
  // A broken table could have put in bytes that are no text.
  text.text = is_valid_utf8(out) ? std::move(out) : to_valid_utf8(out);
}

}  // namespace tessera
