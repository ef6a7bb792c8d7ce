// The normalizers of tokenizer.json: what happens to a text before it is cut.
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

/// InputError, with the place in the file, for what is not known.
std::unique_ptr<HfNormalizer> make_hf_normalizer(const HfNode& node);

}  // namespace tessera
