#include "tessera/config/flags/flag.h"

#include <sstream>

#include "tessera/config/flags/flag_builders.h"

namespace tessera::config {
namespace {

constexpr GroupTitle kGroups[] = {
    {Group::general, "General"},
    {Group::model, "Model"},
    {Group::initialization, "Regularization and initialization"},
    {Group::precision, "Precision"},
    {Group::recompute, "Recompute"},
    {Group::preprocessing, "Preprocessing"},
    {Group::generation, "Generation"},
    {Group::batches, "Batches and length"},
    {Group::optimizer, "Optimizer"},
    {Group::learning_rate, "Learning rate"},
    {Group::data, "Data"},
    {Group::tokenizer, "Tokenizer"},
    {Group::evaluation, "Evaluation"},
    {Group::logging, "Logging"},
    {Group::profiling, "Profiling"},
    {Group::conversion, "Conversion"},
    {Group::checkpoints, "Checkpoints"},
    {Group::device, "Device"},
    {Group::parallel, "Parallelism"},
};

std::optional<Values> nothing(const Settings&) { return std::nullopt; }

}  // namespace

std::span<const GroupTitle> group_titles() { return kGroups; }

std::vector<std::string> split_words(const Values& values) {
  std::vector<std::string> words;
  for (const std::string& value : values) {
    std::istringstream text(value);
    std::size_t before = words.size();
    for (std::string word; text >> word;) words.push_back(word);
    if (words.size() == before) words.push_back(value);  // reported as it is
  }
  return words;
}

Flag make_flag(std::string_view name, Arity arity, std::string placeholder, std::string_view help) {
  Flag flag;
  flag.name = name;
  flag.arity = arity;
  flag.placeholder = std::move(placeholder);
  flag.help = help;
  flag.get = nothing;
  flag.fault = [](const Settings&) { return std::string(); };
  return flag;
}

Flag action(std::string_view name, std::function<void(Settings&, bool)> apply,
            std::function<bool(const Settings&)> is_on, std::string_view help) {
  Flag flag = make_flag(name, Arity::none, "", help);
  flag.set = [apply = std::move(apply)](Settings& s, const Values& values) {
    apply(s, parse_switch(values.at(0)));
  };
  flag.get = [is_on = std::move(is_on)](const Settings& s) {
    return Values{is_on(s) ? "true" : "false"};
  };
  return flag;
}

Flag Flag::only_for(CommandSet only) && {
  commands = only;
  return std::move(*this);
}

Flag Flag::replaced_for(CommandSet commands_without, std::string_view by) && {
  replaced_in = commands_without;
  replacement = by;
  return std::move(*this);
}

Flag Flag::which_means(Command command, std::string_view text) && {
  other_help.emplace_back(command, text);
  return std::move(*this);
}

std::string_view Flag::help_of(Command command) const {
  for (const auto& [other, text] : other_help)
    if (other == command) return text;
  return help;
}

Flag Flag::must_be_given() && {
  required = true;
  return std::move(*this);
}

Flag Flag::one_of(std::string_view name_of_alternative) && {
  alternative = name_of_alternative;
  return std::move(*this);
}

Flag Flag::only_if(std::function<bool(const Settings&)> test, std::string_view in_words) && {
  applies = std::move(test);
  applies_when = in_words;
  return std::move(*this);
}

Flag Flag::only_with(std::string_view other, std::string_view in_words) && {
  partner = other;
  applies_when = in_words;
  return std::move(*this);
}

Flag Flag::zero_means_absent() && {
  zero_is_absent = true;
  return std::move(*this);
}

Flag Flag::for_some_models() && {
  depends_on_model = true;
  return std::move(*this);
}

Flag Flag::shown_if(std::function<bool(const Settings&)> test) && {
  get = [getter = std::move(get), test = std::move(test)](const Settings& s) {
    return test(s) ? getter(s) : std::nullopt;
  };
  return std::move(*this);
}

Flag Flag::never_shown() && {
  get = nothing;
  return std::move(*this);
}

}  // namespace tessera::config
