#include "tessera/data/preprocess/chat_lines.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

struct MessageKeys {
  const char *list, *role, *content;
};
constexpr MessageKeys kOpenAi = {"messages", "role", "content"};
constexpr MessageKeys kShareGpt = {"conversations", "from", "value"};

std::string_view text_at(const Json& message, const char* key, const std::string& where) {
  const auto found = message.find(key);
  check_input(found != message.end(), "{} has no '{}'", where, key);
  check_input(found->is_string(), "{}, '{}': expected a string, got {}", where, key,
              found->type_name());
  return found->get_ref<const std::string&>();
}

bool is_learned(const Json& message, const std::string& where) {
  const auto weight = message.find("weight");
  if (weight == message.end() || weight->is_null()) return true;
  check_input(*weight == 0 || *weight == 1, "{}, 'weight': expected 0 or 1, got {:.40}", where,
              weight->dump(-1, ' ', true, Json::error_handler_t::replace));
  return *weight == 1;
}

void check_without(const Json& object, std::initializer_list<const char*> keys,
                   const std::string& where) {
  for (const char* key : keys)
    check_input(!object.contains(key) || object[key].empty(),
                "{} has '{}', for which chat templates have no place here: write it into a "
                "message's content as text, or leave the conversation out",
                where, key);
}

ChatMessage message_of(const Json& message, const MessageKeys& keys, const std::string& where) {
  check_input(message.is_object(), "{}: expected an object, got {}", where, message.type_name());
  check_without(message, {"tool_calls", "function_call", "reasoning_content"}, where);
  ChatMessage read{text_at(message, keys.role, where), text_at(message, keys.content, where),
                   is_learned(message, where)};
  if (&keys == &kShareGpt && read.role == "human") read.role = "user";
  if (&keys == &kShareGpt && read.role == "gpt") read.role = kAssistant;
  return read;
}

}  // namespace

std::span<const ChatMessage> ChatLine::read(std::string_view line, const std::string& where) {
  object_ = parse_json(line, where);
  check_input(object_.is_object(), "{}: expected a JSON object, got {}", where,
              object_.type_name());
  check_without(object_, {"system", "tools", "functions"}, where);
  const bool by_role = object_.contains(kOpenAi.list);
  check_input(by_role != object_.contains(kShareGpt.list),
              "{}: expected an object with either 'messages' or 'conversations'", where);
  const MessageKeys& keys = by_role ? kOpenAi : kShareGpt;
  const Json& list = object_[keys.list];
  check_input(list.is_array(), "{}, '{}': expected an array of messages, got {}", where, keys.list,
              list.type_name());
  messages_.clear();
  for (const Json& message : list)
    messages_.push_back(
        message_of(message, keys, fmt::format("{}, message {}", where, messages_.size() + 1)));
  return messages_;
}

}  // namespace tessera
