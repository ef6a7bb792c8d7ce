#include "tessera/comm/call_offer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tessera/base/check.h"
#include "tessera/comm/call_checks.h"

namespace tessera {

CallOffer::CallOffer(const std::string& name) {
  check(name.size() < call.size(), "the call '{}' has too long a name", name);
  std::copy(name.begin(), name.end(), call.begin());
}

CallOffer::CallOffer(const std::string& name, const ConstView& x) : CallOffer(name) {
  dtype = x.dtype();
  dimensions = x.rank();
  std::copy(x.shape().dims().begin(), x.shape().dims().end(), dims.begin());
}

Shape CallOffer::shape() const {
  return Shape(std::span(dims).first(static_cast<std::size_t>(std::max(dimensions, 0))));
}

std::size_t CallOffer::bytes() const {
  return static_cast<std::size_t>(shape().numel()) * element_size(dtype);
}

std::string CallOffer::memory() const {
  return dimensions < 0 ? "nothing"
                        : fmt::format("{} {}", tessera::to_string(dtype), shape().to_string());
}

std::string CallOffer::to_string() const {
  return dimensions < 0 ? call.data() : fmt::format("{} with {}", call.data(), memory());
}

std::optional<std::string> find_mismatch(std::span<const CallOffer> offers,
                                         CallConsistency consistency,
                                         std::span<const int> job_ranks) {
  const auto size_of_part = [&](const CallOffer& offer) {
    const ConstView x(nullptr, offer.dtype, offer.shape());
    return consistency == CallConsistency::elements ? x.numel() : row_elements(x);
  };
  const bool agree = std::all_of(offers.begin(), offers.end(), [&](const CallOffer& each) {
    return each.call == offers[0].call && each.dtype == offers[0].dtype &&
           size_of_part(each) == size_of_part(offers[0]);
  });
  if (agree) return std::nullopt;
  std::map<std::string, std::vector<int>> places;
  for (std::size_t r = 0; r < offers.size(); ++r)
    places[offers[r].to_string()].push_back(static_cast<int>(r));
  std::vector<std::string> calls;
  for (const auto& [call, who] : places)
    calls.push_back(fmt::format("{} {} {}", format_ranks(who, job_ranks),
                                who.size() == 1 ? "calls" : "call", call));
  return fmt::format("ranks disagree in a collective: {}", fmt::join(calls, ", "));
}

std::string format_ranks(std::vector<int> places, std::span<const int> job_ranks) {
  std::sort(places.begin(), places.end());
  std::vector<int> in_job;
  for (const int place : places) in_job.push_back(job_ranks[static_cast<std::size_t>(place)]);
  std::string text =
      fmt::format("{} {}", places.size() == 1 ? "rank" : "ranks", fmt::join(places, ", "));
  if (places == in_job) return text;
  return fmt::format("{} of a group ({} of the job)", text, fmt::join(in_job, ", "));
}

}  // namespace tessera
