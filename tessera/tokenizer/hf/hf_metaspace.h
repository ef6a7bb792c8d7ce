// Metaspace, which writes spaces as a visible character (U+2581), both ways.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tokenizer/hf/hf_node.h"
#include "tessera/tokenizer/hf/hf_pattern.h"

namespace tessera {

class HfMetaspace {
 public:
  explicit HfMetaspace(const HfNode& node);

  /// Spaces replaced, and one put before the piece where the scheme wants it.
  std::string replace(std::string_view piece, bool at_start) const;
  /// Where the replacement stands.
  HfMatches matches(std::string_view text) const;
  bool splits() const { return split_; }
  /// Back to spaces; the first token of a text loses those that replace() could have put there.
  std::string decode(std::string_view token, bool is_first) const;

 private:
  enum class Prepend { always, never, first };

  std::string replacement_;
  Prepend prepend_ = Prepend::always;
  bool split_ = true;
};

}  // namespace tessera
