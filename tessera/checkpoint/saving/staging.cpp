#include "tessera/checkpoint/saving/staging.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kNear = 64 << 10;  // bytes between slices that are copied along

std::int64_t bytes_of(const StagedSlice& slice, const Range& range) {
  return range.length() * static_cast<std::int64_t>(element_size(slice.block.memory.dtype()));
}

// Elements of the block from a slice's first to its last.
Range span_of(const ShardPiece& piece) {
  std::int64_t last = piece.storage_offset;
  for (int i = 0; i < piece.extent.rank(); ++i) last += (piece.extent[i] - 1) * piece.strides[i];
  return {piece.storage_offset, last + 1};
}

std::int64_t aligned(std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

Staging::Staging(Session& session, bool with_optimizer, Limit limit, bool copies)
    : session_(session), copies_(copies) {
  collect(with_optimizer);
  if (copies)
    plan(limit);
  else
    plan({});
}

void Staging::collect(bool with_optimizer) {
  const auto add = [&](SaveFile file, const std::string& prefix,
                       const std::vector<ParameterBlock>& blocks) {
    for (const ParameterBlock& block : blocks)
      for (KeptSlice& kept : kept_slices(session_.context().mesh, block))
        if (kept.writes) slices_.push_back({file, prefix + kept.tensor, kept, block});
  };
  // In a file, wide types come first, so that all are aligned.
  const auto wider = [](const ParameterBlock& a, const ParameterBlock& b) {
    return element_size(a.memory.dtype()) > element_size(b.memory.dtype());
  };
  std::vector<ParameterBlock> values = session_.parameters().values();
  std::ranges::stable_sort(values, wider);
  add(SaveFile::model, "", values);
  if (!with_optimizer) return;
  std::vector<Optimizer::State> states = session_.optimizer().states();
  std::ranges::stable_sort(states, wider, [](const auto& state) { return state.blocks.front(); });
  for (const Optimizer::State& state : states)
    add(SaveFile::optimizer, state.name + ".", state.blocks);
}

// Slices that lie near each other are copied together: a GPU's copies are few and long.
void Staging::plan(const Limit& most) {
  std::int64_t limit = most.bytes;
  if (limit > 0 && !most.strict)
    for (const StagedSlice& slice : slices_)
      limit = std::max(limit, aligned(bytes_of(slice, span_of(slice.kept.piece))));
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const StagedSlice& slice = slices_[i];
    const Range span = span_of(slice.kept.piece);
    const std::int64_t own = aligned(bytes_of(slice, span));
    check_input(limit == 0 || own <= limit,
                "checkpoints are copied to {} MiB of memory (--async-save-staging-mib), but "
                "'{}' alone needs {}: give at least that",
                limit >> 20, slice.name, (own >> 20) + 1);
    if (waves_.empty()) waves_.emplace_back();
    Wave* wave = &waves_.back();
    Run* run = wave->runs.empty() ? nullptr : &wave->runs.back();
    const bool joins = run != nullptr &&
                       slices_[run->block_slice].block.memory.raw() == slice.block.memory.raw() &&
                       span.begin >= run->range.begin &&
                       bytes_of(slice, {run->range.end, span.begin}) <= kNear;
    const Range together{joins ? run->range.begin : span.begin,
                         joins ? std::max(run->range.end, span.end) : span.end};
    const std::int64_t at = joins ? run->at : wave->bytes;
    const std::int64_t bytes = at + aligned(bytes_of(slice, together));
    if (limit > 0 && bytes > limit && i > wave->begin) {
      wave->end = i;
      wave = &waves_.emplace_back();
      wave->begin = i;
      wave->runs.push_back({i, span, 0});
      wave->bytes = own;
    } else if (joins) {
      run->range = together;
      wave->bytes = bytes;
    } else {
      wave->runs.push_back({i, span, at});
      wave->bytes = bytes;
    }
    wave->run_of.push_back(wave->runs.size() - 1);
    wave->end = i + 1;
    capacity_ = std::max(capacity_, wave->bytes);
  }
}

void Staging::copy_in(const Wave& wave) {
  Stream& stream = session_.context().stream;
  auto* memory = static_cast<std::byte*>(memory_.view().raw());
  for (const Run& run : wave.runs) {
    const StagedSlice& slice = slices_[run.block_slice];
    const View from = slice.block.memory.slice(0, run.range.begin, run.range.length());
    stream.api().copy_bytes(stream.native(), memory + run.at, from.raw(), from.bytes());
  }
  stream.synchronize();
}

ConstView Staging::data_of(const Wave& wave, std::size_t slice) const {
  const StagedSlice& each = slices_[slice];
  if (!copies_) return each.kept.in(each.block);
  const Run& run = wave.runs[wave.run_of[slice - wave.begin]];
  const DType dtype = each.block.memory.dtype();
  ShardPiece piece = each.kept.piece;
  piece.storage_offset -= run.range.begin;
  return piece.in(
      View(static_cast<std::byte*>(memory_.view().raw()) + run.at, dtype, {run.range.length()}));
}

void Staging::prepare() {
  if (capacity_ == 0) return;
  memory_ = session_.memory().allocate_host(DType::u8, {capacity_});
  std::memset(memory_.view().raw(), 0, memory_.view().bytes());
}

void Staging::fill() {
  try {
    fill_waves();
  } catch (...) {
    give_up();
    throw;
  }
}

void Staging::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
}

void Staging::fill_waves() {
  session_.parameters().wait_for_param_gather();
  session_.context().stream.synchronize();
  if (copies_ && !memory_) prepare();
  for (const Wave& wave : waves_) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return filled_ == drained_ || !copies_ || given_up_; });
    if (given_up_) return;
    lock.unlock();
    if (copies_) copy_in(wave);
    lock.lock();
    ++filled_;
    changed_.notify_all();
  }
}

void Staging::drain(const std::function<void(std::size_t, const ConstView&)>& write) {
  try {
    for (const Wave& wave : waves_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return filled_ > drained_ || given_up_; });
      check(!given_up_, "the state could not be copied");
      lock.unlock();
      for (std::size_t i = wave.begin; i < wave.end; ++i) write(i, data_of(wave, i));
      lock.lock();
      ++drained_;
      changed_.notify_all();
    }
  } catch (...) {
    give_up();
    throw;
  }
}

void Staging::reset() {
  const std::lock_guard lock(mutex_);
  filled_ = drained_ = 0;
  given_up_ = false;
}

}  // namespace tessera
