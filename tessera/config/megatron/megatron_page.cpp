#include <fmt/core.h>

#include <algorithm>

#include "tessera/config/flags/flag_table.h"
#include "tessera/config/megatron/megatron_flags.h"
#include "tessera/config/megatron/old_names.h"

namespace tessera::config {
namespace {

// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string shown_flag(std::string_view name, std::string_view placeholder) {
  return fmt::format("`--{}{}{}`", name, placeholder.empty() ? "" : " ", placeholder);
}

// The flags of a row, separated by commas.
std::string flags_of(const MegatronRow& row) {
  std::string text;
  for (const MegatronFlag& flag : megatron_flags())
    if (flag.row == &row)
      text += (text.empty() ? "" : ", ") + shown_flag(flag.name, flag.placeholder);
  return text;
}

// Calls `row` for each row, after a heading wherever the topic changes.
void by_topic(std::span<const MegatronRow> rows, std::string_view columns, std::string& page,
              const auto& row_text) {
  std::string_view topic;
  for (const MegatronRow& row : rows) {
    if (row.topic != topic) page += fmt::format("\n**{}**\n\n{}\n", row.topic, columns);
    topic = row.topic;
    page += row_text(row);
  }
}

std::string done_lines(const MegatronRow& row) {
  std::string lines;
  for (const MegatronFlag& flag : megatron_flags())
    if (flag.row == &row)
      lines += fmt::format("| {} | {} |\n", cell(shown_flag(flag.name, flag.placeholder)),
                           cell(find_flag(flag.name)->help_of(Command::train)));
  return lines;
}

std::string explained_line(const MegatronRow& row) {
  std::string text(row.text);
  if (!row.only_with.empty()) text += fmt::format("; without `--{}` a warning only", row.only_with);
  if (!row.values.empty()) text += fmt::format("; accepted: `{}`", row.values);
  return fmt::format("| {} | {} |\n", cell(flags_of(row)), cell(text));
}

std::string meaning_text(const OldName& name) {
  if (name.meaning.empty()) return "nothing to change";
  std::string text = "`--";
  for (const char c : name.meaning) {
    if (c == ';')
      text += "`, `--";
    else
      text += c == '$' ? std::string("VALUE") : std::string(1, c);
  }
  return text + "`";
}

std::string old_names_table() {
  std::string text = "| flag | stands for |\n|---|---|\n";
  for (const OldName& name : old_names()) {
    const std::string_view value = name.arity == Arity::none ? ""
                                   : name.value.empty()      ? "VALUE"
                                                             : name.value;
    text += fmt::format("| {} | {} |\n", shown_flag(name.name, value), meaning_text(name));
  }
  return text;
}

}  // namespace

std::string megatron_page() {
  std::string page = "## Done\n";
  by_topic(done_rows(), "| flag | meaning |\n|---|---|", page, done_lines);
  page += "\n**Other names**\n\n" + old_names_table();
  page += "\n## Already so\n";
  by_topic(already_so_rows(), "| flags | what Tessera does |\n|---|---|", page, explained_line);
  page += "\n## Missing\n";
  by_topic(missing_rows(), "| flags | reason |\n|---|---|", page, explained_line);
  return page;
}

}  // namespace tessera::config
