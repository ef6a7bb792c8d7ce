// The normalizers of tokenizer.json, which change a text before it is split.
#pragma once

#include <memory>

#include "tessera/tokenizer/hf/hf_node.h"
#include "tessera/tokenizer/hf/hf_pieces.h"

namespace tessera {

class HfNormalizer {
 public:
  virtual ~HfNormalizer() = default;
  virtual void normalize(HfText& text) const = 0;
};

/// InputError, with the location in the file, for unknown normalizers.
std::unique_ptr<HfNormalizer> make_hf_normalizer(const HfNode& node);

}  // namespace tessera
