#include "tessera/config/megatron/megatron_flags.h"

#include <algorithm>

#include "tessera/config/flags/flag_table.h"
#include "tessera/config/megatron/old_names.h"

namespace tessera::config {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (!word.empty()) words.push_back(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return words;
}

MegatronFlag flag_from(std::string_view written, MegatronClass kind, const MegatronRow& row) {
  const std::size_t equals = written.find('=');
  MegatronFlag flag{written.substr(0, equals), {}, Arity::none, kind, &row};
  if (equals == std::string_view::npos) return flag;
  flag.placeholder = written.substr(equals + 1);
  flag.arity = flag.placeholder.ends_with("...") ? Arity::many : Arity::one;
  return flag;
}

// Flags that are done have their values in the table of flags.
void describe_values(MegatronFlag& flag) {
  const Flag* own = find_flag(flag.name);
  if (own == nullptr) return;
  flag.placeholder = own->placeholder;
  flag.arity = own->arity;
}

std::vector<MegatronFlag> build_megatron_flags() {
  std::vector<MegatronFlag> flags;
  const auto add = [&](std::span<const MegatronRow> rows, MegatronClass kind) {
    for (const MegatronRow& row : rows)
      for (const std::string_view name : words_of(row.names)) {
        flags.push_back(flag_from(name, kind, row));
        if (kind == MegatronClass::done) describe_values(flags.back());
      }
  };
  add(done_rows(), MegatronClass::done);
  add(already_so_rows(), MegatronClass::already_so);
  add(missing_rows(), MegatronClass::missing);
  return flags;
}

}  // namespace

bool MegatronFlag::lists(const Values& given) const {
  const std::vector<std::string_view> known = words_of(row->values);
  return std::ranges::all_of(given, [&](const std::string& value) {
    return std::ranges::find(known, value) != known.end();
  });
}

const std::vector<MegatronFlag>& megatron_flags() {
  static const std::vector<MegatronFlag> flags = build_megatron_flags();
  return flags;
}

const MegatronFlag* find_megatron_flag(std::string_view name) {
  const auto& flags = megatron_flags();
  const auto found = std::ranges::find(flags, name, &MegatronFlag::name);
  return found == flags.end() ? nullptr : &*found;
}

}  // namespace tessera::config
