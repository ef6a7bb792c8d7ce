#include "tessera/comm/mpi/offer.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

MpiOffer::MpiOffer(const std::string& name) {
  check(name.size() < call.size(), "the call '{}' has too long a name", name);
  std::copy(name.begin(), name.end(), call.begin());
}

MpiOffer::MpiOffer(const std::string& name, const ConstView& x) : MpiOffer(name) {
  dtype = x.dtype();
  dimensions = x.rank();
  std::copy(x.shape().dims().begin(), x.shape().dims().end(), dims.begin());
}

Shape MpiOffer::shape() const {
  return Shape(std::span(dims).first(static_cast<std::size_t>(std::max(dimensions, 0))));
}

std::size_t MpiOffer::bytes() const {
  return static_cast<std::size_t>(shape().numel()) * size_of(dtype);
}

std::string MpiOffer::memory() const {
  return dimensions < 0 ? "nothing" : fmt::format("{} {}", name_of(dtype), shape().to_string());
}

std::string MpiOffer::to_string() const {
  return dimensions < 0 ? call.data() : fmt::format("{} with {}", call.data(), memory());
}

}  // namespace tessera
