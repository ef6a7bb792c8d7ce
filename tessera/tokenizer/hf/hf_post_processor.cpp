#include "tessera/tokenizer/hf/hf_post_processor.h"

namespace tessera {
namespace {

std::int32_t read_id(const HfNode& node, std::int64_t tokens) {
  return static_cast<std::int32_t>(node.integer(0, tokens - 1));
}

// {"sep": ["[SEP]", 102], "cls": ["[CLS]", 101]}
HfTemplate read_sep_and_cls(const HfNode& node, std::int64_t tokens) {
  HfTemplate made;
  const auto id = [&](std::string_view key) {
    const std::vector<HfNode> pair = node.at(key).items();
    if (pair.size() != 2) node.at(key).refuse("a token and its number were expected");
    return read_id(pair[1], tokens);
  };
  made.before.push_back(id("cls"));
  made.after.push_back(id("sep"));
  return made;
}

HfTemplate read_template(const HfNode& node, std::int64_t tokens) {
  node.allow_only({"type", "single", "pair", "special_tokens"});
  HfTemplate made;
  bool text_seen = false;
  for (const HfNode& step : node.at("single").items()) {
    step.allow_only({"SpecialToken", "Sequence"});
    if (const auto sequence = step.find("Sequence")) {
      if (text_seen || sequence->at("id").text() != "A")
        sequence->refuse("the template of one text has the text, A, once");
      text_seen = true;
      continue;
    }
    const HfNode special = step.at("SpecialToken").at("id");
    const HfNode ids = node.at("special_tokens").at(special.text()).at("ids");
    for (const HfNode& id : ids.items())
      (text_seen ? made.after : made.before).push_back(read_id(id, tokens));
  }
  if (!text_seen) node.at("single").refuse("the text itself, {{\"Sequence\": ...}}, is missing");
  return made;
}

HfTemplate read_sequence(const HfNode& node, std::int64_t tokens) {
  node.allow_only({"type", "processors"});
  HfTemplate made;
  for (const HfNode& step : node.at("processors").items()) {
    const HfTemplate outer = read_hf_post_processor(step, tokens);
    made.before.insert(made.before.begin(), outer.before.begin(), outer.before.end());
    made.after.insert(made.after.end(), outer.after.begin(), outer.after.end());
  }
  return made;
}

}  // namespace

HfTemplate read_hf_post_processor(const HfNode& node, std::int64_t tokens) {
  const std::string& type = node.at("type").text();
  if (type == "TemplateProcessing") return read_template(node, tokens);
  if (type == "Sequence") return read_sequence(node, tokens);
  if (type == "BertProcessing") {
    node.allow_only({"type", "sep", "cls"});
    return read_sep_and_cls(node, tokens);
  }
  if (type == "RobertaProcessing") {
    node.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    return read_sep_and_cls(node, tokens);
  }
  if (type == "ByteLevel") {  // about offsets only
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  node.refuse("the post-processor '{:.100}' is not supported", type);
}

}  // namespace tessera
