#include "tessera/tokenizer/bpe/bpe.h"

#include <algorithm>
#include <array>
#include <span>

#include "tessera/base/check.h"
#include "tessera/tokenizer/bpe/bpe_tables.h"
#include "tessera/tokenizer/bpe/long_merge.h"
#include "tessera/tokenizer/bpe/piece_cache.h"
#include "tessera/tokenizer/bpe/pool.h"

namespace tessera {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kShortPiece = 64;  // up to here looking at all pairs is faster than a heap
constexpr std::uint32_t kNever = PairTable::kNever;

// For short pieces: ranks of all pairs side by side, and the least is looked for each time.
void merge_short(const PairTable& pairs, std::span<const std::int32_t> symbols, Tokens& out) {
  std::array<std::int32_t, kShortPiece> ids;
  std::array<std::uint32_t, kShortPiece> ranks;
  std::array<std::int32_t, kShortPiece> merged;
  std::size_t n = symbols.size();
  std::copy(symbols.begin(), symbols.end(), ids.begin());
  const auto look_up = [&](std::size_t i) {
    const PairTable::Result found = pairs.find(ids[i], ids[i + 1]);
    ranks[i] = found.rank;
    merged[i] = found.merged;
  };
  for (std::size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNever) break;
    ids[best] = merged[best];
    std::copy(ids.begin() + best + 2, ids.begin() + n, ids.begin() + best + 1);
    std::copy(ranks.begin() + best + 1, ranks.begin() + n - 1, ranks.begin() + best);
    std::copy(merged.begin() + best + 1, merged.begin() + n - 1, merged.begin() + best);
    --n;
    if (best + 1 < n) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + n);
}

}  // namespace

// What an encoder works with, and leaves to the next one.
struct EncoderMemory {
  PieceCache pieces;
  LongMerge merge;
};

Bpe::Bpe(const BpeSpec& spec)
    : tables_(std::make_unique<const BpeTables>(spec)),
      memories_(std::make_unique<Pool<EncoderMemory>>()) {}

Bpe::~Bpe() = default;

void Bpe::encode(std::string_view piece, Tokens& out) const {
  LongMerge merge;
  encode(piece, merge, out);
}

void Bpe::encode(std::string_view piece, LongMerge& merge, Tokens& out) const {
  if (tables_->ignores_merges()) {
    const std::int32_t whole = find(piece);
    if (whole >= 0) return out.push_back(whole);
  }
  check_input(piece.size() < kMaxPieceBytes,
              "a piece of text has {} bytes, more than the {} that can be merged", piece.size(),
              kMaxPieceBytes);
  std::array<std::int32_t, kShortPiece> few;
  if (piece.size() <= few.size() && tables_->starts_as_bytes()) {
    const std::size_t count = tables_->bytes_to_symbols(piece, few.data());
    return merge_short(tables_->pairs(), {few.data(), count}, out);
  }
  const Tokens symbols = tables_->symbols(piece);
  if (symbols.size() <= kShortPiece) return merge_short(tables_->pairs(), symbols, out);
  merge.run(tables_->pairs(), symbols, out);
}

std::int32_t Bpe::find(std::string_view token) const { return tables_->find(token); }
std::string_view Bpe::bytes(std::int32_t token) const { return tables_->bytes(token); }
std::int64_t Bpe::size() const { return tables_->size(); }

BpeEncoder::BpeEncoder(const Bpe& bpe) : bpe_(bpe), memory_(bpe.memories_->take()) {}

BpeEncoder::~BpeEncoder() { bpe_.memories_->give_back(std::move(memory_)); }

void BpeEncoder::encode(std::string_view piece, Tokens& out) {
  if (!PieceCache::holds(piece)) return bpe_.encode(piece, memory_->merge, out);
  const PieceCache::Key key(piece);
  PieceCache::Slot& slot = memory_->pieces.slot(key);
  if (slot.key == key) return slot.append_to(out);
  const std::size_t before = out.size();
  bpe_.encode(piece, memory_->merge, out);
  slot.store(key, {out.data() + before, out.size() - before});
}

}  // namespace tessera
