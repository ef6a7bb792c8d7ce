#include "tessera/data/preprocess/json_texts.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

void collect(const Json& value, const std::string& where, std::string_view key,
             std::vector<std::string_view>& texts) {
  check_input(value.is_string() || value.is_array(),
              "{}, key '{}': expected a string or an array of strings, got {}", where, key,
              value.type_name());
  if (value.is_string()) return texts.push_back(value.get_ref<const std::string&>());
  for (const Json& text : value) {
    check_input(text.is_string(), "{}, key '{}': expected an array of strings, it holds {}", where,
                key, text.type_name());
    texts.push_back(text.get_ref<const std::string&>());
  }
}

}  // namespace

void JsonTexts::read(std::string_view line, const std::string& where) {
  object_ = parse_json(line, where);
  check_input(object_.is_object(), "{}: expected a JSON object on each line, got {}", where,
              object_.type_name());
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    texts_[k].clear();
    const auto value = object_.find(keys_[k]);
    check_input(value != object_.end(), "{}: the object has no key '{}'", where, keys_[k]);
    collect(*value, where, keys_[k], texts_[k]);
  }
}

}  // namespace tessera
