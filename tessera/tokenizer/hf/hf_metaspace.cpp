#include "tessera/tokenizer/hf/hf_metaspace.h"

namespace tessera {

// Files of before 2024 have add_prefix_space rather than prepend_scheme.
HfMetaspace::HfMetaspace(const HfNode& node) : replacement_(node.at("replacement").character()) {
  node.allow_only(
      {"type", "replacement", "str_rep", "prepend_scheme", "add_prefix_space", "split"});
  split_ = node.flag_or("split", true);
  const auto scheme = node.find("prepend_scheme");
  const auto old = node.find("add_prefix_space");
  if (scheme) {
    const std::string& name = scheme->text();
    if (name != "always" && name != "never" && name != "first")
      scheme->refuse("'{:.100}' is not known; known are always, never and first", name);
    prepend_ = name == "always"  ? Prepend::always
               : name == "never" ? Prepend::never
                                 : Prepend::first;
  }
  if (old && !old->flag()) {
    if (scheme && prepend_ != Prepend::never)
      old->refuse("add_prefix_space is false, but prepend_scheme is not 'never'");
    prepend_ = Prepend::never;
  }
}

std::string HfMetaspace::replace(std::string_view piece, bool at_start) const {
  std::string out;
  const bool prepends = prepend_ == Prepend::always || (prepend_ == Prepend::first && at_start);
  if (prepends && !piece.starts_with(' ') && !piece.starts_with(replacement_)) out = replacement_;
  for (const char c : piece)
    if (c == ' ')
      out += replacement_;
    else
      out += c;
  return out;
}

HfMatches HfMetaspace::matches(std::string_view text) const {
  return find_literal(text, replacement_);
}

std::string HfMetaspace::decode(std::string_view token, bool is_first) const {
  std::string out;
  std::size_t at = 0;
  for (const Piece& piece : matches(token)) {
    if (!piece.matched)
      out += token.substr(at, piece.end - at);
    else if (!is_first || prepend_ == Prepend::never)
      out += ' ';
    at = piece.end;
  }
  return out;
}

}  // namespace tessera
