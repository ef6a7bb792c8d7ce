// The pre-tokenizers of tokenizer.json: they cut a text into the pieces that the model encodes one
// by one.
#pragma once

#include <memory>

#include "tessera/tokenizer/hf/hf_node.h"
#include "tessera/tokenizer/hf/hf_pieces.h"

namespace tessera {

class HfPreTokenizer {
 public:
  virtual ~HfPreTokenizer() = default;
  virtual void apply(HfPieces& pieces) const = 0;
};

struct HfPreTokenizers {
  std::unique_ptr<HfPreTokenizer> steps;
  /// Whether pieces leave as bytes, and the model works on bytes: the last step is ByteLevel, and
  /// its detour over printable characters is left out.
  bool makes_bytes = false;
};

/// `bytes_if_possible`: see makes_bytes. InputError, with the location, for unknown pre-tokenizers.
HfPreTokenizers make_hf_pre_tokenizer(const HfNode& node, bool bytes_if_possible);

}  // namespace tessera
