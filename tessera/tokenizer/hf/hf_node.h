// A node of a tokenizer.json: the value and its location, for error messages.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/json.h"

namespace tessera {

class HfNode {
 public:
  /// `what` names the file. The document must outlive the node.
  HfNode(const Json& value, std::string what, std::string path = "$");

  /// The member of an object; InputError when it is missing.
  HfNode at(std::string_view key) const;
  /// The same, but nothing when it is missing or null.
  std::optional<HfNode> find(std::string_view key) const;
  /// InputError for a member that is not among `keys`: unknown settings are never ignored silently.
  void allow_only(std::initializer_list<std::string_view> keys) const;
  /// The elements of an array.
  std::vector<HfNode> items() const;

  const std::string& text() const;
  bool flag() const;
  double number() const;
  std::int64_t integer(std::int64_t lowest, std::int64_t highest) const;
  /// A text of exactly one character.
  const std::string& character() const;

  // Members that may be missing.
  bool flag_or(std::string_view key, bool otherwise) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;

  const Json& value() const { return *value_; }
  /// The file and the place in it.
  std::string where() const { return what_ + ": " + path_; }

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<detail::Printable<Args>...> text,
                           const Args&... args) const {
    throw InputError(where() + ": " + fmt::format(text, detail::printable(args)...));
  }

  /// Runs code without file context, and puts the location in front of its InputError.
  template <class Make>
  auto placed(const Make& make) const {
    try {
      return make();
    } catch (const InputError& error) {
      refuse("{}", error.what());
    }
  }

 private:
  [[noreturn]] void refuse_type(std::string_view wanted) const;

  const Json* value_;
  std::string what_, path_;
};

}  // namespace tessera
