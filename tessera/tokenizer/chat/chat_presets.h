// The chat formats that are known by name.
#pragma once

#include <vector>

#include "tessera/tokenizer/chat/chat_template.h"

namespace tessera {

/// In the order of their names.
std::vector<ChatTemplate> chat_presets();

}  // namespace tessera
