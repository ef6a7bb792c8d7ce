#include "tessera/tokenizer/chat/chat_encoder.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// What Python's strip takes away, and so templates that trim.
bool is_trimmed(char32_t c) { return is_whitespace(c) || (c >= 0x1c && c <= 0x1f); }

std::string_view trimmed(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (!is_trimmed(c.value)) {
      begin = std::min(begin, at);
      end = at + c.length;
    }
    at += c.length;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string roles_text(const ChatTemplate& chat) {
  std::string names;
  for (const auto& [name, role] : chat.roles) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

// Gathers text of one kind, and encodes it when something else comes.
class ChatEncoder::Writer {
 public:
  explicit Writer(const ChatEncoder& encoder) : encoder_(encoder) {}

  void add(std::string_view text, bool learned) {
    if (swallows_) text.remove_prefix(skip_spaces(text, 0));
    if (text.empty()) return;
    swallows_ = false;
    if (learned != learned_) flush();
    learned_ = learned;
    text_ += text;
  }

  void add(std::span<const Part> parts, bool learned) {
    for (const Part& part : parts) {
      if (part.token < 0) {
        add(part.text, learned);
        continue;
      }
      const Tokenizer::Swallowed spaces = encoder_.tokenizer_.swallows(part.token);
      if (spaces.before) text_.resize(skip_spaces_back(text_, text_.size()));
      flush();
      chat_.tokens.push_back(part.token);
      chat_.mask.push_back(learned ? 1 : 0);
      swallows_ = spaces.behind;
    }
  }

  EncodedChat finish() {
    flush();
    return std::move(chat_);
  }

 private:
  void flush() {
    if (text_.empty()) return;
    const std::size_t before = chat_.tokens.size();
    encoder_.tokenizer_.encode_plain_to(text_, before == 0, chat_.tokens);
    for (std::size_t i = before; i < chat_.tokens.size(); ++i)
      if (const auto found = encoder_.special_.find(chat_.tokens[i]);
          found != encoder_.special_.end())
        fail_input(
            "a text becomes the special token '{}' by this tokenizer's own rules, which no message "
            "may: take it out of the text",
            found->second);
    chat_.mask.resize(chat_.tokens.size(), learned_ ? 1 : 0);
    text_.clear();
  }

  const ChatEncoder& encoder_;
  EncodedChat chat_;
  std::string text_;
  bool learned_ = false;
  bool swallows_ = false;  // the token before takes the spaces that follow it
};

ChatEncoder::ChatEncoder(ChatTemplate chat, const Tokenizer& tokenizer)
    : chat_(std::move(chat)), tokenizer_(tokenizer) {
  for (const auto& [text, token] : tokenizer.special_tokens()) special_.emplace(token, text);
  for (const std::string& token : chat_.special_tokens)
    check_input(std::any_of(special_.begin(), special_.end(),
                            [&](const auto& each) { return each.second == token; }),
                "the chat template '{}' needs '{:.100}', which is no special token of this "
                "tokenizer: choose a template that fits the tokenizer, or a tokenizer that has it",
                chat_.name, token);
  begin_ = parts_of(chat_.begin);
  end_ = parts_of(chat_.end);
  for (const auto& [name, role] : chat_.roles) roles_.emplace(name, make_role(name, role));
}

// At each place the longest.
std::vector<ChatEncoder::Part> ChatEncoder::parts_of(std::string_view text) const {
  std::vector<Part> parts;
  const auto starts_here = [&](std::string_view rest) {
    auto longest = special_.end();
    for (auto each = special_.begin(); each != special_.end(); ++each)
      if (!each->second.empty() && rest.starts_with(each->second) &&
          (longest == special_.end() || each->second.size() > longest->second.size()))
        longest = each;
    return longest;
  };
  while (!text.empty()) {
    const auto special = starts_here(text);
    if (special == special_.end()) {
      if (parts.empty() || parts.back().token >= 0) parts.emplace_back();
      parts.back().text += text.front();
      text.remove_prefix(1);
      continue;
    }
    const auto& [token, name] = *special;
    check_input(std::ranges::count(chat_.special_tokens, name) > 0,
                "the chat template '{}' holds '{}', a special token of this tokenizer that it does "
                "not list: add it to special_tokens",
                chat_.name, name);
    parts.push_back({"", token});
    text.remove_prefix(name.size());
  }
  return parts;
}

ChatEncoder::Role ChatEncoder::make_role(const std::string& name,
                                         const ChatTemplate::Role& role) const {
  Role made{.prefix = parts_of(role.prefix),
            .space = "",
            .suffix = parts_of(role.suffix),
            .learned_suffix = 0,
            .trim = role.trim};
  if (name == kAssistant && !made.prefix.empty()) {
    std::string& last = made.prefix.back().text;
    const std::size_t kept = last.find_last_not_of(' ') + 1;
    made.space = last.substr(kept);
    last.resize(kept);
  }
  // What follows the end of a turn is not for the model to say.
  made.learned_suffix = made.suffix.size();
  for (std::size_t i = 0; i < made.suffix.size(); ++i)
    if (made.suffix[i].token >= 0) made.learned_suffix = i + 1;
  return made;
}

void ChatEncoder::add(const ChatMessage& message, Writer& writer) const {
  const auto found = roles_.find(message.role);
  check_input(found != roles_.end(),
              "the chat template '{}' has no role '{:.100}', only {}: rename it, leave the message "
              "out, or choose another template",
              chat_.name, message.role, roles_text(chat_));
  const Role& role = found->second;
  const bool learned = message.role == kAssistant && message.learned;
  writer.add(role.prefix, false);
  writer.add(role.space, learned);
  writer.add(role.trim ? trimmed(message.content) : message.content, learned);
  const std::span<const Part> suffix = role.suffix;
  writer.add(suffix.first(role.learned_suffix), learned);
  writer.add(suffix.subspan(role.learned_suffix), false);
}

EncodedChat ChatEncoder::encode(std::span<const ChatMessage> messages) const {
  Writer writer(*this);
  writer.add(begin_, false);
  for (const ChatMessage& message : messages) add(message, writer);
  writer.add(end_, false);
  EncodedChat chat = writer.finish();
  // The first token follows nothing, so that it cannot be learned.
  check_input(chat.mask.size() > 1 && std::count(chat.mask.begin() + 1, chat.mask.end(), 1) > 0,
              "nothing to learn: there is no assistant message that counts");
  return chat;
}

}  // namespace tessera
