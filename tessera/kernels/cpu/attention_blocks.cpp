// Key ranges, dropout and soft cap of score blocks, and the layout of the attention scratch memory.
#include "tessera/kernels/cpu/attention_blocks.h"

#include <cmath>

#include "tessera/kernels/cpu/blas.h"
#include "tessera/kernels/dropout.h"

namespace tessera::cpu {

using std::int64_t;

// Computed in global positions: the query is at q_start + i, the keys are [kv_start, kv_start + T).
// The range is the intersection of
//   all keys here   [kv_start, kv_start + T)
//   causal          [.., position]
//   window          [position - window + 1, ..]
//   document        [its first position, first position of the next one)
//   chunk           [its first position, first position of the next one), counted from that of the
//                   document
// and then becomes local. Runs on the calling thread: it is O(B S log documents), far below the
// cost of the scores.
KeyRanges::KeyRanges(void* memory, int64_t batch, int64_t queries, int64_t keys,
                     const AttentionSpec& spec)
    : ranges_(static_cast<std::int32_t*>(memory)), queries_(queries) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t position = spec.q_start + i;
      int64_t begin = spec.kv_start;
      int64_t end = spec.kv_start + keys;
      if (spec.causal) end = std::min(end, position + 1);
      if (spec.window > 0) begin = std::max(begin, position - spec.window + 1);
      int64_t document = 0;
      if (spec.documents) {
        // `next` is the first document start after the query, so next[-1] is the start of the
        // query's own document. Before the first start, and after the last one, the range has no
        // bound.
        const int64_t starts = spec.documents.dim(1);
        const std::int32_t* first = spec.documents.data<std::int32_t>() + b * starts;
        const std::int32_t* next = std::upper_bound(first, first + starts, position);
        if (next != first) document = next[-1];
        begin = std::max(begin, document);
        if (next != first + starts) end = std::min<int64_t>(end, next[0]);
      }
      if (spec.chunk > 0) {
        const int64_t first_of_chunk = position - (position - document) % spec.chunk;
        begin = std::max(begin, first_of_chunk);
        end = std::min(end, first_of_chunk + spec.chunk);
      }
      // An empty intersection, for example with keys that are all in the future, becomes begin ==
      // end.
      begin = std::clamp<int64_t>(begin - spec.kv_start, 0, keys);
      end = std::clamp<int64_t>(end - spec.kv_start, begin, keys);
      // i32 is enough for local indices and halves the memory of the table [B, S, 2].
      range(b, i)[0] = static_cast<std::int32_t>(begin);
      range(b, i)[1] = static_cast<std::int32_t>(end);
    }
}

// One Philox call gives four words, for the keys 4 n ... 4 n + 3 by global position. The words are
// kept while consecutive columns fall into the same group of four; a block may start or end in the
// middle of a group.
template <class A>
void drop_block(A* scores, const ScoreBlock& block, const AttentionSpec& spec, int64_t b,
                int64_t head) {
  // Rows are queries and columns are keys, both by global position.
  const int64_t sample = spec.dropout.samples.data<int64_t>()[b];
  const std::uint32_t bound = dropout_bound(spec.dropout.p);
  const A scale = static_cast<A>(1.0 / (1.0 - spec.dropout.p));
  for (int64_t i = 0; i < block.rows; ++i) {
    const int64_t query = spec.q_start + block.query + i;
    // Rows of a score block are kKeyBlock apart, also in a block with fewer columns.
    A* row = scores + i * kKeyBlock;
    Philox4 words{};
    int64_t words_of = -1;
    for (int64_t j = 0; j < block.columns; ++j) {
      const int64_t key = spec.kv_start + block.key + j;
      if (key / 4 != words_of) {
        words_of = key / 4;
        words = attention_dropout_words(spec.dropout.key, sample, spec.head_start + head, query,
                                        words_of);
      }
      // The block holds e^(s - max), P or d_o v^T; row sums are taken before dropout.
      row[j] *= words.v[key % 4] >= bound ? scale : A(0);
    }
  }
}
template void drop_block<float>(float*, const ScoreBlock&, const AttentionSpec&, int64_t, int64_t);
template void drop_block<double>(double*, const ScoreBlock&, const AttentionSpec&, int64_t,
                                 int64_t);

// Uses the C library's tanh. Columns that are masked later are capped too; their values are not
// used.
template <class A>
void cap_block(A* scores, const ScoreBlock& block, A cap) {
  for (int64_t i = 0; i < block.rows; ++i) {
    A* row = scores + i * kKeyBlock;
    for (int64_t j = 0; j < block.columns; ++j) row[j] = cap * std::tanh(row[j] / cap);
  }
}
template void cap_block<float>(float*, const ScoreBlock&, float);
template void cap_block<double>(double*, const ScoreBlock&, double);

// The order of the buffers has no meaning. Sizes are rounded up to 16 elements, one cache line of
// f32, and followed by kBehind elements, because blas_small_gemm may read beyond the end of a
// matrix.
template <class A>
std::size_t AttentionScratch<A>::lay_out(A* memory, const AttentionSizes& sizes) {
  // queries: S; group: query heads per key/value head; d and e: head sizes of q and k, and of v and
  // o.
  const auto& [queries, group, d, e] = sizes;
  int64_t used = 0;
  const auto take = [&](int64_t elements) {
    A* part = memory ? memory + used : nullptr;
    // With a null `memory` only the sizes are added up.
    used += (elements + 15) / 16 * 16 + kBehind;
    return part;
  };
  q = take(kQueryBlock * d);
  d_o = take(kQueryBlock * e);
  out = take(kQueryBlock * e);
  k = take(kKeyBlock * d);
  v = take(kKeyBlock * e);
  k_transposed = take(d * kKeyBlock);
  v_transposed = take(e * kKeyBlock);
  dk = take(kKeyBlock * d);
  dv = take(kKeyBlock * e);
  scores = take(kQueryBlock * kKeyBlock);
  d_scores = take(kQueryBlock * kKeyBlock);
  maximum = take(kQueryBlock);
  sum = take(kQueryBlock);
  // The only buffers whose size grows with the sequence length; the others have block size.
  delta = take(group * queries);
  dq = take(group * queries * d);
  return static_cast<std::size_t>(used);
}
template struct AttentionScratch<float>;
template struct AttentionScratch<double>;

}  // namespace tessera::cpu
