#include "tessera/tokenizer/chat/chat_presets.h"

namespace tessera {
namespace {

// Qwen, and many others.
ChatTemplate chatml() {
  ChatTemplate chat{.name = "chatml", .special_tokens = {"<|im_start|>", "<|im_end|>"}};
  for (const char* role : {"system", "user", kAssistant, "tool"})
    chat.roles[role] = {"<|im_start|>" + std::string(role) + "\n", "<|im_end|>\n"};
  return chat;
}

// Without a system message: Gemma has none.
ChatTemplate gemma() {
  ChatTemplate chat{.name = "gemma",
                    .begin = "<bos>",
                    .special_tokens = {"<bos>", "<start_of_turn>", "<end_of_turn>"}};
  chat.roles["user"] = {"<start_of_turn>user\n", "<end_of_turn>\n", true};
  chat.roles[kAssistant] = {"<start_of_turn>model\n", "<end_of_turn>\n", true};
  return chat;
}

// Llama 3. Later ones write dates into the system message, which is the data's own matter here.
ChatTemplate llama3() {
  ChatTemplate chat{.name = "llama3",
                    .begin = "<|begin_of_text|>",
                    .special_tokens = {"<|begin_of_text|>", "<|start_header_id|>",
                                       "<|end_header_id|>", "<|eot_id|>"}};
  for (const char* role : {"system", "user", kAssistant})
    chat.roles[role] = {"<|start_header_id|>" + std::string(role) + "<|end_header_id|>\n\n",
                        "<|eot_id|>", true};
  return chat;
}

// Mistral from v3 of its tokenizers on, where [INST] is one token.
ChatTemplate mistral() {
  ChatTemplate chat{
      .name = "mistral", .begin = "<s>", .special_tokens = {"<s>", "</s>", "[INST]", "[/INST]"}};
  chat.roles["user"] = {"[INST] ", "[/INST]"};
  chat.roles[kAssistant] = {" ", "</s>", true};
  return chat;
}

}  // namespace

std::vector<ChatTemplate> chat_presets() { return {chatml(), gemma(), llama3(), mistral()}; }

}  // namespace tessera
