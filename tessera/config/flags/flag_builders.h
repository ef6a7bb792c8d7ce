// Builders for rows of the flag table. A builder takes an accessor such as
// at(&ModelOptions::num_layers): a function from Settings (const or not) to the stored option.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/enumerators.h"
#include "tessera/config/flags/flag.h"
#include "tessera/config/value.h"
#include "tessera/options/limits.h"
#include "tessera/options/model_names.h"

namespace tessera::config {

template <class Part>
auto& part_of(auto& settings) {
  if constexpr (std::is_same_v<Part, Settings>)
    return settings;
  else if constexpr (std::is_same_v<Part, ModelOptions>)
    return settings.options.model;
  else if constexpr (std::is_same_v<Part, RopeOptions>)
    return settings.options.model.rope;
  else if constexpr (std::is_same_v<Part, RecomputeOptions>)
    return settings.options.recompute;
  else if constexpr (std::is_same_v<Part, OptimizerOptions>)
    return settings.options.optimizer;
  else if constexpr (std::is_same_v<Part, ScheduleOptions>)
    return settings.options.schedule;
  else if constexpr (std::is_same_v<Part, DataOptions>)
    return settings.options.data;
  else if constexpr (std::is_same_v<Part, FimOptions>)
    return settings.options.data.fim;
  else if constexpr (std::is_same_v<Part, TokenizerOptions>)
    return settings.options.data.tokenizer;
  else if constexpr (std::is_same_v<Part, TrainOptions>)
    return settings.options.train;
  else if constexpr (std::is_same_v<Part, ParallelOptions>)
    return settings.options.parallel;
  else if constexpr (std::is_same_v<Part, PipelineOptions>)
    return settings.options.pipeline;
  else if constexpr (std::is_same_v<Part, GenerateOptions>)
    return settings.generate;
  else if constexpr (std::is_same_v<Part, EvaluateOptions>)
    return settings.evaluate;
  else if constexpr (std::is_same_v<Part, InspectOptions>)
    return settings.inspect;
  else if constexpr (std::is_same_v<Part, ConvertOptions>)
    return settings.convert;
  else if constexpr (std::is_same_v<Part, TokenizeOptions>)
    return settings.tokenize;
  else if constexpr (std::is_same_v<Part, TrainTokenizerOptions>)
    return settings.train_tokenizer;
  else if constexpr (std::is_same_v<Part, SplitDataOptions>)
    return settings.split_data;
  else {
    static_assert(std::is_same_v<Part, PreprocessOptions>, "not a part of Settings");
    return settings.preprocess;
  }
}

template <class T, class Part>
auto at(T Part::*member) {
  return [member](auto& settings) -> auto& { return part_of<Part>(settings).*member; };
}

/// The type of the option that an accessor returns.
template <class Access>
using Stored = std::remove_cvref_t<std::invoke_result_t<Access, Settings&>>;

Flag make_flag(std::string_view name, Arity arity, std::string placeholder, std::string_view help);

template <class Access>
Flag integer(std::string_view name, Access access, IntegerRange range, std::string_view help) {
  const auto stored = [access](const Settings& s) { return static_cast<std::int64_t>(access(s)); };
  Flag flag = make_flag(name, Arity::one, "N", help);
  flag.set = [access, range](Settings& s, const Values& values) {
    access(s) = static_cast<Stored<Access>>(parse_integer(values.at(0), range));
  };
  flag.get = [stored, range](const Settings& s) -> std::optional<Values> {
    if (!range.has(stored(s))) return std::nullopt;
    return Values{std::to_string(stored(s))};
  };
  flag.fault = [stored, range](const Settings& s) {
    return range.has(stored(s)) ? "" : fmt::format("{}: {}", stored(s), range.expected());
  };
  return flag;
}

/// "2 2" in one word is two words, since launch scripts keep lists in quotes.
std::vector<std::string> split_words(const Values& values);

/// Several integers.
template <class Access>
Flag integers(std::string_view name, Access access, IntegerRange range, std::string_view help) {
  Flag flag = make_flag(name, Arity::many, "N...", help);
  flag.set = [access, range](Settings& s, const Values& values) {
    access(s).clear();
    for (const std::string& value : split_words(values))
      access(s).push_back(
          static_cast<typename Stored<Access>::value_type>(parse_integer(value, range)));
  };
  flag.get = [access](const Settings& s) -> std::optional<Values> {
    if (access(s).empty()) return std::nullopt;
    Values values;
    for (const auto each : access(s)) values.push_back(std::to_string(each));
    return values;
  };
  return flag;
}

template <class Access>
Flag real(std::string_view name, Access access, RealRange range, std::string_view help) {
  Flag flag = make_flag(name, Arity::one, "X", help);
  flag.set = [access, range](Settings& s, const Values& values) {
    access(s) = parse_real(values.at(0), range);
  };
  flag.get = [access, range](const Settings& s) -> std::optional<Values> {
    if (!range.has(access(s))) return std::nullopt;
    return Values{to_text(access(s))};
  };
  flag.fault = [access, range](const Settings& s) {
    return range.has(access(s)) ? "" : fmt::format("{}: {}", access(s), range.expected());
  };
  return flag;
}

/// Several numbers.
template <class Access>
Flag reals(std::string_view name, Access access, RealRange range, std::string_view help) {
  Flag flag = make_flag(name, Arity::many, "X...", help);
  flag.set = [access, range](Settings& s, const Values& values) {
    access(s).clear();
    for (const std::string& value : values) access(s).push_back(parse_real(value, range));
  };
  flag.get = [access](const Settings& s) -> std::optional<Values> {
    if (access(s).empty()) return std::nullopt;
    Values values;
    for (const double each : access(s)) values.push_back(to_text(each));
    return values;
  };
  return flag;
}

/// True if given; `--name=false` resets it.
template <class Access>
Flag toggle(std::string_view name, Access access, std::string_view help) {
  Flag flag = make_flag(name, Arity::none, "", help);
  flag.set = [access](Settings& s, const Values& v) { access(s) = parse_switch(v.at(0)); };
  flag.get = [access](const Settings& s) { return Values{access(s) ? "true" : "false"}; };
  return flag;
}

template <class Access>
Flag text(std::string_view name, Access access, std::string_view placeholder, std::size_t limit,
          std::string_view help) {
  Flag flag = make_flag(name, Arity::one, std::string(placeholder), help);
  flag.quoted = true;
  flag.set = [access, limit](Settings& s, const Values& v) {
    access(s) = parse_text(v.at(0), limit);
  };
  flag.get = [access](const Settings& s) -> std::optional<Values> {
    if (access(s).empty()) return std::nullopt;
    return Values{access(s)};
  };
  return flag;
}

template <class Access>
Flag path(std::string_view name, Access access, std::string_view placeholder,
          std::string_view help) {
  return text(name, access, placeholder, kMaxPathBytes, help);
}

/// Several texts.
template <class Access>
Flag texts(std::string_view name, Access access, std::string_view placeholder, std::size_t limit,
           std::string_view help) {
  Flag flag = make_flag(name, Arity::many, std::string(placeholder) + "...", help);
  flag.quoted = true;
  flag.set = [access, limit](Settings& s, const Values& values) {
    access(s).clear();
    for (const std::string& value : values) access(s).push_back(parse_text(value, limit));
  };
  flag.get = [access](const Settings& s) -> std::optional<Values> {
    if (access(s).empty()) return std::nullopt;
    return access(s);
  };
  return flag;
}

template <class E>
struct Name {
  E value;
  std::string_view text;
};

template <class E>
std::string listed(const std::vector<Name<E>>& names, std::string_view separator) {
  std::string all;
  for (const Name<E>& name : names) {
    if (!all.empty()) all += separator;
    all += name.text;
  }
  return all;
}

/// One of a few words.
template <class Access>
Flag word(std::string_view name, Access access, std::vector<Name<Stored<Access>>> names,
          std::string_view help) {
  Flag flag = make_flag(name, Arity::one, "{" + listed(names, ",") + "}", help);
  flag.set = [access, names](Settings& s, const Values& values) {
    for (const auto& known : names)
      if (known.text == values.at(0)) {
        access(s) = known.value;
        return;
      }
    fail_input("expected one of {}", listed(names, ", "));
  };
  flag.get = [access, names](const Settings& s) -> std::optional<Values> {
    for (const auto& known : names)
      if (known.value == access(s)) return Values{std::string(known.text)};
    return std::nullopt;
  };
  return flag;
}

/// One of the names that to_string gives to the values of an enumeration.
template <class Access>
Flag word(std::string_view name, Access access, std::string_view help) {
  std::vector<Name<Stored<Access>>> names;
  for (const Stored<Access> value : enumerators<Stored<Access>>())
    names.push_back({value, to_string(value)});
  return word(name, access, std::move(names), help);
}

/// Several of these names.
template <class Access>
Flag words(std::string_view name, Access access, std::string_view help) {
  using Each = typename Stored<Access>::value_type;
  std::vector<Name<Each>> names;
  for (const Each value : enumerators<Each>()) names.push_back({value, to_string(value)});
  Flag flag = make_flag(name, Arity::many, "{" + listed(names, ",") + "}...", help);
  flag.set = [access, names](Settings& s, const Values& values) {
    access(s).clear();
    for (const std::string& value : values) {
      const auto known = std::ranges::find(names, value, &Name<Each>::text);
      check_input(known != names.end(), "expected one of {}, got {}", listed(names, ", "),
                  quote(value));
      access(s).push_back(known->value);
    }
  };
  flag.get = [access](const Settings& s) -> std::optional<Values> {
    if (access(s).empty()) return std::nullopt;
    Values values;
    for (const Each each : access(s)) values.emplace_back(to_string(each));
    return values;
  };
  return flag;
}

/// A switch that is not stored as a bool of its own; `is_on` returns its state.
Flag action(std::string_view name, std::function<void(Settings&, bool)> apply,
            std::function<bool(const Settings&)> is_on, std::string_view help);

}  // namespace tessera::config
