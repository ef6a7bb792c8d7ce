// Conversations to tokens, and which of them are learned: the contents of the assistant's messages
// and what ends them.
//
//   <|im_start|> user \n Hi <|im_end|> \n <|im_start|> assistant \n  Hello !  <|im_end|> \n
//   0            0    0  0  0          0  0            0         0   1     1  1          0
//
// Special tokens come from the template alone. Contents are plain text: what looks like a special
// token in them is not one.
//
// A span of text between special tokens is encoded as one, as Hugging Face's chat templates have
// it, but cut where what is learned begins: there a prompt ends when the model is used, so that no
// token may reach over it. Spaces at the end of an assistant's prefix go with the content, as words
// have the space before them in their tokens.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/tokenizer/chat/chat_template.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

struct ChatMessage {
  std::string_view role;
  std::string_view content;
  bool learned = true;  ///< messages of the assistant: whether it counts in the loss
};

/// A conversation: the tokens, and for each 1 if it is learned, else 0.
struct EncodedChat {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> mask;
};

/// Many threads may use one. The tokenizer must outlive it.
class ChatEncoder {
 public:
  /// InputError when the tokenizer lacks a special token of the template.
  ChatEncoder(ChatTemplate chat, const Tokenizer& tokenizer);

  /// InputError when the template has no such role, nothing would be learned, or a content cannot
  /// be encoded without a special token.
  EncodedChat encode(std::span<const ChatMessage> messages) const;

 private:
  /// Text that is encoded in one piece, or a special token.
  struct Part {
    std::string text;
    std::int32_t token = -1;
  };
  struct Role {
    std::vector<Part> prefix;
    std::string space;  ///< the end of an assistant's prefix, which its content begins with
    std::vector<Part> suffix;
    std::size_t learned_suffix;  ///< parts of it up to the last special token
    bool trim;
  };
  class Writer;

  std::vector<Part> parts_of(std::string_view text) const;
  Role make_role(const std::string& name, const ChatTemplate::Role& role) const;
  void add(const ChatMessage& message, Writer& writer) const;

  ChatTemplate chat_;
  const Tokenizer& tokenizer_;
  std::unordered_map<std::int32_t, std::string> special_;  ///< all that the tokenizer has
  std::vector<Part> begin_, end_;
  std::map<std::string, Role, std::less<>> roles_;
};

}  // namespace tessera
