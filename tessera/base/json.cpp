#include "tessera/base/json.h"

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// How deep a document may nest: far beyond any real file, far below what would overflow a stack.
constexpr std::size_t kMaxDepth = 64;

// Builds the document and refuses duplicate keys and deep nesting on the way. The library's own
// filter (a callback for Json::parse) walks all earlier members after each nested object, which
// takes minutes for an object with 100,000 of them.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(std::string_view what) : what_(what) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [member, is_new] =
        open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(name));
    check_input(is_new, "{}: key '{:.200}' occurs twice in one object", what_, member->first);
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail_input("{}: not valid JSON: {:.300}", what_, reason_of(error));
  }

 private:
  // Where the next value goes: the document itself, the end of an array, or the member just named.
  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
    return *member_ = std::move(value);
  }

  bool put(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    check_input(open_.size() < kMaxDepth, "{}: nested deeper than {} levels", what_, kMaxDepth);
    Json& placed = place(std::move(container));
    open_.push_back(&placed);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view what_;
  Json root_;
  std::vector<Json*> open_;  // the containers around the next value, outermost first
  Json* member_ = nullptr;   // of the innermost object
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  const std::size_t zero = text.find('\0');  // where the library would take the text to end
  check_input(zero == std::string_view::npos, "{}: not valid JSON: a zero byte at byte {}", what,
              zero);
  StrictBuilder builder(what);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string reason_of(const Json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.starts_with("[json.exception.") ? text.find("] ") : text.npos;
  return std::string(end == text.npos ? text : text.substr(end + 2));
}

}  // namespace tessera
