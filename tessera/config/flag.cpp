#include "tessera/config/flag.h"

#include <array>

#include "tessera/config/flag_builders.h"

namespace tessera::config {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 17> kTitles = {
    "General",       "Model",     "Dropout and initialization",
    "Precision",     "Recompute", "Batches and length",
    "Optimizer",     "Learning rate",
    "Data",          "Tokenizer", "Evaluation",
    "Logging",       "Checkpoints",
    "Device",        "Parallelism",
    "Generation",    "Preprocessing"};

std::optional<Values> nothing(const Settings&) { return std::nullopt; }

}  // namespace

std::string_view title_of(Group group) { return kTitles[static_cast<std::size_t>(group)]; }

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
  flag.set = [apply](Settings& s, const Values& values) { apply(s, parse_switch(values.at(0))); };
  flag.get = [is_on](const Settings& s) { return Values{is_on(s) ? "true" : "false"}; };
  return flag;
}

Flag Flag::only_for(CommandSet only) && {
  commands = only;
  return std::move(*this);
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
