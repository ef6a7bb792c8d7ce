// How a conversation is written as one text: for each role what stands before and behind its
// messages. There is nothing to run in a template, so that one from anywhere can be used.
//
//   begin  { prefix of the role  content  suffix of the role }...  end
//
// Some known formats are there by name; a JSON file describes any other:
//
//   {"special_tokens": ["<|im_start|>", "<|im_end|>"],
//    "begin": "", "end": "", "trim": false,
//    "roles": {"user": {"prefix": "<|im_start|>user\n", "suffix": "<|im_end|>\n"},
//              "assistant": {"prefix": "<|im_start|>assistant\n", "suffix": "<|im_end|>\n"}}}
//
// begin, end and trim may be left out. trim takes white space off contents; a role may have its
// own.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json.h"

namespace tessera {

/// The role with the messages that count in the loss.
inline constexpr const char* kAssistant = "assistant";

struct ChatTemplate {
  struct Role {
    std::string prefix, suffix;
    bool trim = false;  ///< white space around contents goes
    bool operator==(const Role&) const = default;
  };

  std::string name;  ///< for messages: the preset or the file
  std::string begin = {}, end = {};
  std::map<std::string, Role> roles = {};  ///< the assistant's is one of them
  /// Which the texts hold, and the tokenizer must have.
  std::vector<std::string> special_tokens = {};

  bool operator==(const ChatTemplate&) const = default;
};

/// A preset's name, or a JSON file. InputError states the problem and its location.
ChatTemplate read_chat_template(const std::string& name_or_file);
/// `what` names the file in errors.
ChatTemplate parse_chat_template(std::string_view text, const std::string& what);
/// The JSON that parse_chat_template reads.
Json chat_template_json(const ChatTemplate& chat);

/// For help and messages: "chatml, gemma, ...".
std::string chat_preset_names();

}  // namespace tessera
