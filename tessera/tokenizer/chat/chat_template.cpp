#include "tessera/tokenizer/chat/chat_template.h"

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/tokenizer/chat/chat_presets.h"
#include "tessera/tokenizer/hf/hf_node.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxTemplateBytes = 1 << 20;

void check_template(const ChatTemplate& chat) {
  check_input(chat.roles.count(kAssistant) != 0,
              "{}: roles has no 'assistant', whose messages are what is learned: add it",
              chat.name);
  std::string all = chat.begin + '\0' + chat.end;
  for (const auto& [name, role] : chat.roles) all += '\0' + role.prefix + '\0' + role.suffix;
  for (const std::string& token : chat.special_tokens)
    check_input(
        !token.empty() && all.find(token) != std::string::npos,
        "{}: the special token '{:.100}' is in none of the template's texts: take it out of "
        "special_tokens, or fix the text that it should be in",
        chat.name, token);
}

}  // namespace

ChatTemplate parse_chat_template(std::string_view text, const std::string& what) {
  const Json document = parse_json(text, what);
  const HfNode root(document, what);
  root.allow_only({"special_tokens", "begin", "end", "trim", "roles"});
  ChatTemplate chat{
      .name = what, .begin = root.text_or("begin", ""), .end = root.text_or("end", "")};
  const bool trim = root.flag_or("trim", false);
  for (const HfNode& token : root.at("special_tokens").items())
    chat.special_tokens.push_back(token.text());
  const HfNode roles = root.at("roles");
  if (!roles.value().is_object()) roles.refuse("expected an object of roles");
  for (const auto& [name, unused] : roles.value().items()) {
    const HfNode role = roles.at(name);
    role.allow_only({"prefix", "suffix", "trim"});
    chat.roles[name] = {role.at("prefix").text(), role.at("suffix").text(),
                        role.flag_or("trim", trim)};
  }
  check_template(chat);
  return chat;
}

Json chat_template_json(const ChatTemplate& chat) {
  Json roles = Json::object();
  for (const auto& [name, role] : chat.roles)
    roles[name] = {{"prefix", role.prefix}, {"suffix", role.suffix}, {"trim", role.trim}};
  return {{"special_tokens", chat.special_tokens},
          {"begin", chat.begin},
          {"end", chat.end},
          {"roles", roles}};
}

std::string chat_preset_names() {
  std::string names;
  for (const ChatTemplate& preset : chat_presets())
    names += (names.empty() ? "" : ", ") + preset.name;
  return names;
}

ChatTemplate read_chat_template(const std::string& name_or_file) {
  for (ChatTemplate& preset : chat_presets())
    if (preset.name == name_or_file) return std::move(preset);
  std::error_code ignored;
  check_input(fs::is_regular_file(name_or_file, ignored),
              "--chat-template '{:.200}' is neither a known template ({}) nor a file", name_or_file,
              chat_preset_names());
  return parse_chat_template(read_text_file(name_or_file, kMaxTemplateBytes), name_or_file);
}

}  // namespace tessera
