// The conversation in a line of JSON, an object with one of
//
//   "messages": [{"role": "user", "content": "..."}, ...]
//   "conversations": [{"from": "human", "value": "..."}, ...]    human: user, gpt: assistant
//
// A message may have a "weight" of 0 (not learned) or 1. Other members are passed over, except tool
// calls, which would be lost.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json.h"
#include "tessera/tokenizer/chat/chat_encoder.h"

namespace tessera {

/// Parses one line after the other. Results are valid until the next line is read.
class ChatLine {
 public:
  /// InputError with `where` and the problem.
  std::span<const ChatMessage> read(std::string_view line, const std::string& where);

 private:
  Json object_;  // what the messages lie in
  std::vector<ChatMessage> messages_;
};

}  // namespace tessera
