#include "tessera/nn/rope_table.h"

#include <cmath>
#include <iterator>

#include "tessera/spec/rope_frequencies.h"

namespace tessera {
namespace {

// values(p, i) of pair i at position p.
template <class A, class F>
Tensor make_table(Memory& memory, Stream& stream, std::int64_t positions, std::int64_t pairs,
                  const F& values) {
  std::vector<A> host;
  host.reserve(static_cast<std::size_t>(pairs * positions));
  for (std::int64_t p = 0; p < positions; ++p)
    for (std::int64_t i = 0; i < pairs; ++i) host.push_back(static_cast<A>(values(p, i)));
  Tensor table = memory.allocate(MemoryUse::parameters, dtype_of<A>(), {positions, pairs});
  stream.api().copy_bytes(stream.native(), table.view().raw(), host.data(),
                          host.size() * sizeof(A));
  stream.synchronize();  // before the host vector is destroyed
  return table;
}

template <class F>
Tensor make_table(Memory& memory, Stream& stream, DType model_dtype, std::int64_t positions,
                  std::int64_t pairs, const F& values) {
  return accumulator_type(model_dtype) == DType::f64
             ? make_table<double>(memory, stream, positions, pairs, values)
             : make_table<float>(memory, stream, positions, pairs, values);
}

// The table of a spec, made by `make` at the first request.
template <class Spec, class F>
const RopeTable* find_or_make(std::deque<std::pair<Spec, RopeTable>>& tables,
                              const std::optional<Spec>& spec, const F& make) {
  if (!spec) return nullptr;
  for (const auto& [known, table] : tables)
    if (known == *spec) return &table;
  return &tables.emplace_back(*spec, make(*spec)).second;
}

}  // namespace

RopeTable::RopeTable(Memory& memory, Stream& stream, DType model_dtype,
                     const std::vector<double>& frequencies, double scale, std::int64_t positions) {
  const auto make = [&](double (*function)(double)) {
    return make_table(memory, stream, model_dtype, positions, std::ssize(frequencies),
                      [&](std::int64_t p, std::int64_t i) {
                        return scale * function(static_cast<double>(p) *
                                                frequencies[static_cast<std::size_t>(i)]);
                      });
  };
  cos_ = make([](double x) { return std::cos(x); });
  sin_ = make([](double x) { return std::sin(x); });
}

RopeTable::RopeTable(Memory& memory, Stream& stream, DType model_dtype, const TemperatureSpec& spec,
                     std::int64_t positions) {
  const std::int64_t pairs = spec.head_size / 2;
  cos_ = make_table(memory, stream, model_dtype, positions, pairs,
                    [&](std::int64_t p, std::int64_t) { return temperature(spec, p); });
  sin_ = make_table(memory, stream, model_dtype, positions, pairs,
                    [](std::int64_t, std::int64_t) { return 0.0; });
}

const RopeTable* RopeTables::get(const std::optional<RopeSpec>& spec) {
  return find_or_make(tables_, spec, [&](const RopeSpec& each) {
    const RopeFrequencies rope = rope_frequencies(each);
    return RopeTable(memory_, stream_, dtype_, rope.frequencies, rope.scale, positions_);
  });
}

const RopeTable* RopeTables::get(const std::optional<TemperatureSpec>& spec) {
  return find_or_make(temperatures_, spec, [&](const TemperatureSpec& each) {
    return RopeTable(memory_, stream_, dtype_, each, positions_);
  });
}

std::int64_t RopeTables::bytes(std::int64_t positions) const {
  const auto element = static_cast<std::int64_t>(element_size(accumulator_type(dtype_)));
  std::int64_t pairs = 0;
  for (const auto& [spec, table] : tables_) pairs += table.cos().dim(1);
  for (const auto& [spec, table] : temperatures_) pairs += table.cos().dim(1);
  return 2 * positions * pairs * element;
}

}  // namespace tessera
