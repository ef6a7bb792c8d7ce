#include <cxxabi.h>

#include <cstdlib>

#include "tessera/tensor/trace.h"

namespace tessera {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// Parameters are the last parentheses; those before belong to namespaces and template arguments.
void drop_parameters(std::string& name) {
  if (!name.ends_with(')')) return;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(') --depth;
    if (depth > 0) continue;
    name.resize(i);
    return;
  }
}

void drop_all(std::string& name, std::string_view part) {
  for (std::size_t at = name.find(part); at != std::string::npos; at = name.find(part, at))
    name.erase(at, part.size());
}

}  // namespace

std::string kernel_title(const char* mangled) {
  constexpr std::size_t kLongest = 100;
  constexpr std::string_view kReturnType = "void ";
  std::string name = demangled(mangled);
  drop_parameters(name);
  if (name.starts_with(kReturnType)) name.erase(0, kReturnType.size());
  drop_all(name, "(anonymous namespace)::");
  drop_all(name, "tessera::");
  if (name.size() > kLongest) name.replace(kLongest - 3, std::string::npos, "...");
  return name;
}

}  // namespace tessera
