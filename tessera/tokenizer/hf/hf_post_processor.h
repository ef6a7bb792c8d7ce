// The post-processors of tokenizer.json, as far as they concern one text: the special tokens that
// they put before and after it.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/tokenizer/hf/hf_node.h"

namespace tessera {

struct HfTemplate {
  std::vector<std::int32_t> before, after;
};

/// InputError, with the location in the file, for unknown post-processors. Numbers are less than
/// `tokens`.
HfTemplate read_hf_post_processor(const HfNode& node, std::int64_t tokens);

}  // namespace tessera
