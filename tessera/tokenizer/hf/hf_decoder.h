// The decoders of tokenizer.json: from the texts of tokens back to a text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/tokenizer/hf/hf_node.h"

namespace tessera {

class HfDecoder {
 public:
  virtual ~HfDecoder() = default;
  /// The tokens' texts, which are joined at the end.
  virtual std::vector<std::string> decode(std::vector<std::string> tokens) const = 0;
};

/// InputError, with the location in the file, for unknown decoders.
std::unique_ptr<HfDecoder> make_hf_decoder(const HfNode& node);

}  // namespace tessera
