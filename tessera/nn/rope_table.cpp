#include "tessera/nn/rope_table.h"

#include <cmath>

#include "tessera/spec/rope_frequencies.h"

namespace tessera {
namespace {

template <class A>
Tensor make_table(Memory& memory, Stream& stream, const std::vector<double>& frequencies,
                  double scale, std::int64_t positions, double (*function)(double)) {
  std::vector<A> host;
  host.reserve(frequencies.size() * static_cast<std::size_t>(positions));
  for (std::int64_t p = 0; p < positions; ++p)
    for (const double f : frequencies)
      host.push_back(static_cast<A>(scale * function(static_cast<double>(p) * f)));
  Tensor table = memory.allocate(MemoryUse::parameters, dtype_of<A>(),
                                 {positions, static_cast<std::int64_t>(frequencies.size())});
  stream.api().copy_bytes(stream.native(), table.view().raw(), host.data(),
                          host.size() * sizeof(A));
  stream.synchronize();  // before the host vector is destroyed
  return table;
}

double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

}  // namespace

RopeTable::RopeTable(Memory& memory, Stream& stream, DType model_dtype,
                     const std::vector<double>& frequencies, double scale, std::int64_t positions) {
  const auto make = [&](double (*function)(double)) {
    return accumulator_type(model_dtype) == DType::f64
               ? make_table<double>(memory, stream, frequencies, scale, positions, function)
               : make_table<float>(memory, stream, frequencies, scale, positions, function);
  };
  cos_ = make(cosine);
  sin_ = make(sine);
}

const RopeTable* RopeTables::get(const std::optional<RopeSpec>& spec) {
  if (!spec) return nullptr;
  for (const auto& [known, table] : tables_)
    if (known == *spec) return &table;
  const RopeFrequencies rope = rope_frequencies(*spec);
  return &tables_
              .emplace_back(*spec, RopeTable(memory_, stream_, dtype_, rope.frequencies, rope.scale,
                                             positions_))
              .second;
}

std::int64_t RopeTables::bytes(std::int64_t positions) const {
  const auto element = static_cast<std::int64_t>(element_size(accumulator_type(dtype_)));
  std::int64_t pairs = 0;
  for (const auto& [spec, table] : tables_) pairs += table.cos().dim(1);
  return 2 * positions * pairs * element;
}

}  // namespace tessera
