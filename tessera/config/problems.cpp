#include "tessera/config/problems.h"

#include "tessera/base/check.h"

namespace tessera::config {
namespace {

// More would scroll the first ones away.
constexpr std::size_t kShown = 40;

}  // namespace

void Problems::throw_if_any() const {
  if (lines_.empty()) return;
  if (lines_.size() == 1) throw InputError(lines_.front());
  std::string text = fmt::format("{} problems in the configuration:", lines_.size());
  for (std::size_t i = 0; i < lines_.size() && i < kShown; ++i) text += "\n  - " + lines_[i];
  if (lines_.size() > kShown) text += fmt::format("\n  and {} more", lines_.size() - kShown);
  throw InputError(text);
}

}  // namespace tessera::config
