#include "bench/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>

#include "tessera/base/check.h"

namespace tessera::bench {
namespace {

const std::string& value_after(const std::vector<std::string>& args, std::size_t i) {
  check_input(i + 1 < args.size(), "{} needs a value", args[i]);
  return args[i + 1];
}

}  // namespace

std::int64_t positive_number(const std::string& what, const std::string& text, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  check_input(error == std::errc() && stopped == end && value >= 1 && value <= most,
              "{} must be a whole number from 1 to {}, got '{}'", what, most, text);
  return value;
}

Flags::Flags(const std::vector<std::string>& args, const std::vector<FlagInfo>& known) {
  for (const FlagInfo& flag : known) {
    values_[flag.name] = flag.value;
    const bool is_switch = flag.value == "false";
    const std::string form = fmt::format("--{} {}", flag.name, is_switch ? "" : flag.value);
    list_ += flag.help.empty() ? fmt::format("\n  {}", form)
                               : fmt::format("\n  {:<32}{}", form, flag.help);
  }
  help_ = args.size() == 1 && args[0] == "--help";
  if (help_) return;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::size_t equals = std::min(args[i].find('='), args[i].size());
    const std::string name = args[i].starts_with("--") ? args[i].substr(2, equals - 2) : "";
    const auto found = values_.find(name);
    check_input(found != values_.end(), "unknown flag '{}'; the flags, with their defaults, are:{}",
                args[i], list_);
    const bool is_switch = found->second == "false" || found->second == "true";
    if (equals < args[i].size())
      found->second = args[i].substr(equals + 1);
    else if (is_switch)
      found->second = "true";
    else
      found->second = value_after(args, i++);
    check_input(!is_switch || found->second == "true" || found->second == "false",
                "--{} is on or off: give it alone, or leave it out; got '{}'", name, found->second);
  }
}

std::int64_t Flags::number(const std::string& name, std::int64_t most) const {
  return positive_number("--" + name, text(name), most);
}

double Flags::real(const std::string& name, double most, const char* what) const {
  char* end = nullptr;
  const double value = std::strtod(text(name).c_str(), &end);
  check_input(*end == '\0' && value > 0 && value <= most,
              "--{} must be a number of {} from 0 to {}, got '{}'", name, what, most, text(name));
  return value;
}

Device device_from(const std::string& name) {
  check_input(name == "cpu" || name == "cuda", "--device must be cpu or cuda, got '{}'", name);
  return {name == "cuda" ? DeviceKind::cuda : DeviceKind::cpu, 0};
}

DType dtype_from(const std::string& name) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    if (name == to_string(dtype)) return dtype;
  fail_input("--params-dtype must be f64, f32, bf16 or f16, got '{}'", name);
}

int run_program(int argc, char** argv, const std::vector<FlagInfo>& known,
                const std::function<void(const Flags&)>& body) {
  try {
    const Flags flags(std::vector<std::string>(argv + 1, argv + argc), known);
    if (flags.help())
      fmt::print("the flags, with their defaults, are:{}\n", flags.list());
    else
      body(flags);
    return 0;
  } catch (const InputError& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace tessera::bench
