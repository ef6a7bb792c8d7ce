// Which tokens make up sample i: Megatron's three indices, bit for bit, as pure functions of the
// sequence lengths.
//
//   document_index  the sequences of the split, repeated for each epoch, shuffled. Their tokens in
//                   this order are one long stream.
//   sample_index    sample k is the stream's seq_length + 1 tokens from k x seq_length on, so that
//                   neighbours share one token. Here is where each one starts.
//   shuffle_index   the order in which samples are used.
//
// They have the element types of Megatron's arrays, too: 32 bits wherever these suffice, which is
// 12 bytes a sample.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "tessera/data/datasets/index_array.h"
#include "tessera/data/datasets/split.h"

namespace tessera {

/// Of a data set: documents are numbered in 32 bits.
constexpr std::int64_t kMaxIndexedSequences = std::numeric_limits<std::int32_t>::max();

struct GptIndexSpec {
  SequenceRange range;  ///< the sequences of the split
  std::int64_t num_samples = 0;
  std::int64_t seq_length = 0;
  std::uint64_t seed = 0;  ///< below 2^32
};

/// How often the split is gone through, and how its indices are stored.
struct GptEpochs {
  std::int64_t epochs = 1;         ///< the fewest that give num_samples
  std::int64_t samples = 0;        ///< all that these epochs hold: at least num_samples
  std::int64_t samples_apart = 0;  ///< the first of them, shuffled apart from the rest
  bool last_epoch_apart = false;   ///< it gives below 80 % of its samples, so it stays at the end
  bool wide_starts = false;        ///< sample_index is i64: documents are 2^31 or more
  bool wide_shuffle = false;       ///< shuffle_index is i64: samples are 2^32 - 2 or more
};

/// InputError when the split has no tokens or the numbers are beyond all measure.
GptEpochs plan_epochs(std::int64_t tokens_per_epoch, const GptIndexSpec& spec);

struct SampleStart {
  std::int64_t document = 0;  ///< position in document_index
  std::int64_t offset = 0;    ///< token inside that sequence
  bool operator==(const SampleStart&) const = default;
};
/// The same in 32 bits.
struct NarrowSampleStart {
  std::int32_t document = 0;
  std::int32_t offset = 0;
  operator SampleStart() const { return {document, offset}; }
};

using SampleIndex = IndexArray<NarrowSampleStart, SampleStart>;
using ShuffleIndex = IndexArray<std::uint32_t, std::int64_t>;

struct GptIndices {
  std::span<const std::int32_t> document_index;  ///< [epochs x sequences]
  SampleIndex sample_index;                      ///< [samples + 1]
  ShuffleIndex shuffle_index;                    ///< [samples]
  std::shared_ptr<const void> storage;           ///< keeps the three alive
};

/// `lengths` are those of the sequences in spec.range, `plan` is plan_epochs's. `parts` are worked
/// on at the same time, and do not change the result; 0: as many as are worth it.
GptIndices build_gpt_indices(std::span<const std::int32_t> lengths, const GptIndexSpec& spec,
                             const GptEpochs& plan, int parts = 0);
GptIndices build_gpt_indices(std::span<const std::int32_t> lengths, const GptIndexSpec& spec,
                             int parts = 0);

/// The tokens of all sequences together.
std::int64_t count_tokens(std::span<const std::int32_t> lengths, int parts = 0);

}  // namespace tessera
