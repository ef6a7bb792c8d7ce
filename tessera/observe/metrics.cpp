#include "tessera/observe/metrics.h"

#include <algorithm>

namespace tessera {

double Metric::number() const {
  return std::visit([](auto x) { return static_cast<double>(x); }, value);
}

void Metrics::add(std::string_view name, std::string_view unit, Metric::Value value) {
  all_.push_back({std::string(name), std::string(unit), value});
}

const Metric* Metrics::find(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &Metric::name);
  return found == all_.end() ? nullptr : &*found;
}

double Metrics::number(std::string_view name) const {
  const Metric* metric = find(name);
  return metric ? metric->number() : 0;
}

}  // namespace tessera
