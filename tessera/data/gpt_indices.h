// Which tokens make up sample i: Megatron's three indices, bit for bit, as pure functions of the
// sequence lengths.
//
//   document_index  the sequences of the split, repeated for each epoch, shuffled. Their tokens in
//                   this order are one long stream.
//   sample_index    sample k is the stream's seq_length + 1 tokens from k x seq_length on, so that
//                   neighbours share one token. Here is where each one starts.
//   shuffle_index   the order in which samples are used.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tessera/data/split.h"

namespace tessera {

struct GptIndexSpec {
  SequenceRange range;  ///< the sequences of the split
  std::int64_t num_samples = 0;
  std::int64_t seq_length = 0;
  std::uint64_t seed = 0;  ///< below 2^32
};

/// How often the split is gone through.
struct GptEpochs {
  std::int64_t epochs = 1;         ///< the fewest that give num_samples
  std::int64_t samples = 0;        ///< all that these epochs hold: at least num_samples
  std::int64_t samples_apart = 0;  ///< the first of them, shuffled apart from the rest
  bool last_epoch_apart = false;   ///< it gives below 80 % of its samples, so it stays at the end
};

/// InputError when the split has no tokens or the numbers are beyond all measure.
GptEpochs plan_epochs(std::int64_t tokens_per_epoch, const GptIndexSpec& spec);

struct SampleStart {
  std::int64_t document = 0;  ///< position in document_index
  std::int64_t offset = 0;    ///< token inside that sequence
  bool operator==(const SampleStart&) const = default;
};

struct GptIndices {
  std::span<const std::int32_t> document_index;  ///< [epochs x sequences]
  std::span<const SampleStart> sample_index;     ///< [samples + 1]
  std::span<const std::int64_t> shuffle_index;   ///< [samples]
  std::shared_ptr<const void> storage;           ///< keeps the three alive
};

/// `lengths` are those of the sequences in spec.range. `parts` are worked on at the same time, and
/// do not change the result; 0: as many as are worth it.
GptIndices build_gpt_indices(std::span<const std::int32_t> lengths, const GptIndexSpec& spec,
                             int parts = 0);

/// The tokens of all sequences together.
std::int64_t count_tokens(std::span<const std::int32_t> lengths, int parts = 0);

}  // namespace tessera
