// Feeds arbitrary bytes to the readers of conversations and of chat templates (the first byte
// chooses). They must refuse them with an InputError, or give tokens with a mask for each, and
// special tokens from the template alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/data/preprocess/chat_lines.h"

namespace {

using namespace tessera;

constexpr const char* kFuzzTemplate = R"({"special_tokens": ["<|endoftext|>"], "trim": true,
  "roles": {"user": {"prefix": "U: ", "suffix": "\n"},
            "assistant": {"prefix": "A: ", "suffix": "<|endoftext|>\n"}}})";

void read_line(std::string_view bytes) {
  const ByteTokenizer tokenizer;
  const ChatEncoder encoder(parse_chat_template(kFuzzTemplate, "template"), tokenizer);
  ChatLine line;
  const std::span<const ChatMessage> messages = line.read(bytes, "line");
  const EncodedChat chat = encoder.encode(messages);
  if (chat.mask.size() != chat.tokens.size()) std::abort();
  const auto answers = std::count_if(messages.begin(), messages.end(), [](const ChatMessage& each) {
    return each.role == kAssistant;
  });
  if (std::count(chat.tokens.begin(), chat.tokens.end(), tokenizer.eod()) != answers) std::abort();
}

void read_template(std::string_view bytes) {
  const ByteTokenizer tokenizer;
  const ChatTemplate chat = parse_chat_template(bytes, "template");
  if (parse_chat_template(chat_template_json(chat).dump(), "template") != chat) std::abort();
  const ChatEncoder encoder(chat, tokenizer);
  const std::vector<ChatMessage> messages{{kAssistant, "<|endoftext|> hi"}};
  if (encoder.encode(messages).tokens.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 2 == 0)
      read_line(bytes);
    else
      read_template(bytes);
  } catch (const InputError&) {
    return 0;  // refused
  }
  return 0;
}
