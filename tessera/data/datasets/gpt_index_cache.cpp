#include "tessera/data/datasets/gpt_index_cache.h"

#include <array>

#include "tessera/base/check.h"
#include "tessera/data/files/array_cache.h"

namespace tessera {
namespace {

std::array<ArraySpec, 3> array_specs(const GptIndexSpec& spec, const GptEpochs& plan) {
  const std::int64_t documents = plan.epochs * spec.range.size();
  const std::size_t start = plan.wide_starts ? sizeof(SampleStart) : sizeof(NarrowSampleStart);
  const std::size_t number = plan.wide_shuffle ? sizeof(std::int64_t) : sizeof(std::uint32_t);
  return {{{"document_index", "<i4", sizeof(std::int32_t), documents, ""},
           {"sample_index", plan.wide_starts ? "<i8" : "<i4", start, plan.samples + 1, " 2"},
           {"shuffle_index", plan.wide_shuffle ? "<i8" : "<u4", number, plan.samples, ""}}};
}

std::string specification(std::span<const std::int32_t> lengths, const GptIndexSpec& spec) {
  return fmt::format(
      "tessera GPT indices, version 2\nsequences: {} to {}\nlengths: {:016x}\nnum_samples: {}\n"
      "seq_length: {}\nseed: {}\n",
      spec.range.begin, spec.range.end, bytes_checksum(std::as_bytes(lengths)), spec.num_samples,
      spec.seq_length, spec.seed);
}

}  // namespace

GptIndices cached_gpt_indices(const fs::path& folder, std::span<const std::int32_t> lengths,
                              const GptIndexSpec& spec) {
  if (folder.empty()) return build_gpt_indices(lengths, spec);
  const GptEpochs plan = plan_epochs(count_tokens(lengths), spec);
  const auto arrays = array_specs(spec, plan);
  const ArrayBytes bytes = cached_arrays(folder, specification(lengths, spec), arrays, [&] {
    const GptIndices built = build_gpt_indices(lengths, spec, plan);
    return ArrayBytes{{std::as_bytes(built.document_index), built.sample_index.bytes(),
                       built.shuffle_index.bytes()},
                      built.storage};
  });
  return {elements_of<std::int32_t>(bytes.data[0]), SampleIndex(bytes.data[1], plan.wide_starts),
          ShuffleIndex(bytes.data[2], plan.wide_shuffle), bytes.storage};
}

}  // namespace tessera
