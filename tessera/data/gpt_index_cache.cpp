#include "tessera/data/gpt_index_cache.h"

#include <array>

#include "tessera/base/check.h"
#include "tessera/data/array_cache.h"

namespace tessera {
namespace {

std::array<ArraySpec, 3> array_specs(const GptIndexSpec& spec, const GptEpochs& plan) {
  return {{{"document_index", "<i4", 4, plan.epochs * spec.range.size(), ""},
           {"sample_index", "<i8", sizeof(SampleStart), plan.samples + 1, " 2"},
           {"shuffle_index", "<i8", 8, plan.samples, ""}}};
}

std::string specification(std::span<const std::int32_t> lengths, const GptIndexSpec& spec) {
  return fmt::format(
      "tessera GPT indices, version 1\nsequences: {} to {}\nlengths: {:016x}\nnum_samples: {}\n"
      "seq_length: {}\nseed: {}\n",
      spec.range.begin, spec.range.end, bytes_checksum(std::as_bytes(lengths)), spec.num_samples,
      spec.seq_length, spec.seed);
}

}  // namespace

GptIndices cached_gpt_indices(const fs::path& folder, std::span<const std::int32_t> lengths,
                              const GptIndexSpec& spec) {
  if (folder.empty()) return build_gpt_indices(lengths, spec);
  const auto arrays = array_specs(spec, plan_epochs(count_tokens(lengths), spec));
  const ArrayBytes bytes = cached_arrays(folder, specification(lengths, spec), arrays, [&] {
    const GptIndices built = build_gpt_indices(lengths, spec);
    return ArrayBytes{{std::as_bytes(built.document_index), std::as_bytes(built.sample_index),
                       std::as_bytes(built.shuffle_index)},
                      built.storage};
  });
  return {elements_of<std::int32_t>(bytes.data[0]), elements_of<SampleStart>(bytes.data[1]),
          elements_of<std::int64_t>(bytes.data[2]), bytes.storage};
}

}  // namespace tessera
