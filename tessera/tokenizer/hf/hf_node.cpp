#include "tessera/tokenizer/hf/hf_node.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {

HfNode::HfNode(const Json& value, std::string what, std::string path)
    : value_(&value), what_(std::move(what)), path_(std::move(path)) {}

void HfNode::refuse_type(std::string_view wanted) const {
  refuse("{} was expected, but this is {}", wanted, value_->type_name());
}

HfNode HfNode::at(std::string_view key) const {
  if (!value_->is_object()) refuse_type("an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end()) refuse("'{}' is missing", key);
  return {*found, what_, fmt::format("{}.{}", path_, key)};
}

std::optional<HfNode> HfNode::find(std::string_view key) const {
  if (!value_->is_object()) refuse_type("an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return HfNode(*found, what_, fmt::format("{}.{}", path_, key));
}

void HfNode::allow_only(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) refuse_type("an object");
  for (const auto& [key, member] : value_->items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      refuse("'{:.100}' is not known here, and what it means would be lost", key);
}

std::vector<HfNode> HfNode::items() const {
  if (!value_->is_array()) refuse_type("an array");
  std::vector<HfNode> nodes;
  nodes.reserve(value_->size());
  for (const Json& item : *value_)
    nodes.emplace_back(item, what_, fmt::format("{}[{}]", path_, nodes.size()));
  return nodes;
}

const std::string& HfNode::text() const {
  if (!value_->is_string()) refuse_type("a text");
  return value_->get_ref<const std::string&>();
}

bool HfNode::flag() const {
  if (!value_->is_boolean()) refuse_type("true or false");
  return value_->get<bool>();
}

double HfNode::number() const {
  if (!value_->is_number()) refuse_type("a number");
  const double number = value_->get<double>();
  if (!std::isfinite(number)) refuse("the number is too large");
  return number;
}

std::int64_t HfNode::integer(std::int64_t lowest, std::int64_t highest) const {
  if (!value_->is_number_integer()) refuse_type("a whole number");
  const bool huge = value_->is_number_unsigned() &&
                    value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = huge ? INT64_MAX : value_->get<std::int64_t>();
  if (huge || number < lowest || number > highest)
    refuse("{} is not within [{}, {}]", value_->dump(), lowest, highest);
  return number;
}

const std::string& HfNode::character() const {
  const std::string& one = text();
  if (one.empty() || decode_utf8(one, 0).length != one.size())
    refuse("one character was expected, but this is '{:.100}'", one);
  return one;
}

bool HfNode::flag_or(std::string_view key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->flag() : otherwise;
}

std::string HfNode::text_or(std::string_view key, std::string_view otherwise) const {
  const auto found = find(key);
  return found ? found->text() : std::string(otherwise);
}

}  // namespace tessera
