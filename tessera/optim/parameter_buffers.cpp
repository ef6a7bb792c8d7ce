#include "tessera/optim/parameter_buffers.h"

#include <algorithm>
#include <map>

#include "tessera/base/check.h"

namespace tessera {
namespace {

ParameterList all_of(const std::vector<ParameterList>& units) {
  ParameterList all;
  for (const ParameterList& unit : units) all.insert(all.end(), unit.begin(), unit.end());
  return all;
}

View in(const View& block, const Range& range) {
  return block.slice(0, range.begin, range.length());
}

std::size_t number_of(const BucketLayout& layout, const Bucket& bucket) {
  return static_cast<std::size_t>(&bucket - layout.buckets().data());
}

// Of the buckets of even (0) or odd (1) number.
std::int64_t longest_bucket(const BucketLayout& layout, std::size_t parity) {
  std::int64_t longest = 0;
  for (std::size_t i = parity; i < layout.buckets().size(); i += 2)
    longest = std::max(longest, layout.buckets()[i].range.length());
  return longest;
}

std::int64_t longest_bucket(const BucketLayout& layout) {
  return std::max(longest_bucket(layout, 0), longest_bucket(layout, 1));
}

}  // namespace

ParameterBuffers::ParameterBuffers(const std::vector<ParameterList>& units, Context& context,
                                   Memory& memory, const Options& options)
    : options_(options),
      parameters_(all_of(units)),
      layout_(units, options.shards, options.bucket_elements) {
  allocate(context, memory, parameters_.front()->dtype());
  for (const Bucket& bucket : layout_.buckets())
    for (const std::size_t i : bucket.parameters)
      parameters_[i]->bind(part(whole_values(bucket), i),
                           options.gradients ? part(whole_grads(bucket), i) : View());
}

void ParameterBuffers::allocate(Context& context, Memory& memory, DType dtype) {
  const auto zeros = [&](MemoryUse use, DType type, std::int64_t elements) {
    Tensor tensor = memory.allocate(use, type, {elements});
    context.kernels.fill(context.stream, tensor, 0);
    return tensor;
  };
  const auto kept = [&](bool sharded) {
    return sharded ? layout_.shard_elements() : layout_.elements();
  };
  values_ = zeros(MemoryUse::parameters, dtype, kept(options_.shard_values));
  if (options_.shard_values)
    for (const std::size_t parity : {0u, 1u})
      slots_[parity] = zeros(MemoryUse::parameters, dtype, longest_bucket(layout_, parity));
  if (!options_.gradients) return;
  grads_ = zeros(MemoryUse::gradients, *options_.gradients, kept(options_.shard_gradients));
  if (options_.shard_gradients)
    grad_slot_ = zeros(MemoryUse::gradients, *options_.gradients, longest_bucket(layout_));
}

ParameterBuffers::Bytes ParameterBuffers::bytes_for(const BucketLayout& layout, DType dtype,
                                                    const Options& options) {
  const auto bytes = [](std::int64_t elements, DType type) {
    return elements * static_cast<std::int64_t>(size_of(type));
  };
  Bytes total;
  total.values =
      options.shard_values
          ? bytes(layout.shard_elements() + longest_bucket(layout, 0) + longest_bucket(layout, 1),
                  dtype)
          : bytes(layout.elements(), dtype);
  if (!options.gradients) return total;
  total.grads = options.shard_gradients
                    ? bytes(layout.shard_elements() + longest_bucket(layout), *options.gradients)
                    : bytes(layout.elements(), *options.gradients);
  return total;
}

View ParameterBuffers::part(const View& bucket, std::size_t parameter) const {
  const Shape& shape = parameters_[parameter]->shape();
  const std::int64_t begin = layout_.offset(parameter) - layout_.bucket_of(parameter).range.begin;
  return bucket.slice(0, begin, shape.numel()).reshape(shape);
}

View ParameterBuffers::bucket_in(const ParameterBlock& block, const Bucket& bucket) const {
  check(!block.sharded, "a sharded block has no whole buckets");
  return in(block.memory, bucket.range);
}

View ParameterBuffers::shard_in(const ParameterBlock& block, const Bucket& bucket) const {
  const Range shard = layout_.shard(bucket, options_.shard);
  if (!block.sharded) return in(block.memory, shard);
  return block.memory.slice(0, layout_.shard_offset(bucket), shard.length());
}

View ParameterBuffers::whole_values(const Bucket& bucket) const {
  if (!options_.shard_values) return bucket_in(values(), bucket);
  return slots_[number_of(layout_, bucket) % 2].view().slice(0, 0, bucket.range.length());
}

View ParameterBuffers::whole_grads(const Bucket& bucket) const {
  if (!options_.shard_gradients) return bucket_in(grads(), bucket);
  return grad_slot_.view().slice(0, 0, bucket.range.length());
}

View ParameterBuffers::own_values(const Bucket& bucket) const { return shard_in(values(), bucket); }
View ParameterBuffers::own_grads(const Bucket& bucket) const { return shard_in(grads(), bucket); }

std::vector<ParameterBuffers::Owned> ParameterBuffers::owned() const {
  std::vector<Owned> all;
  for (const Bucket& bucket : layout_.buckets()) {
    const Range shard = layout_.shard(bucket, options_.shard);
    for (const Stretch& stretch : bucket.stretches) {
      const Range mine = intersection(stretch.range, shard);
      if (mine.length() == 0) continue;
      const std::int64_t at = mine.begin - shard.begin;
      const std::int64_t state = layout_.shard_offset(bucket) + at;
      all.push_back({own_values(bucket).slice(0, at, mine.length()),
                     own_grads(bucket).slice(0, at, mine.length()),
                     {state, state + mine.length()},
                     stretch.decays});
    }
  }
  return all;
}

std::vector<View> ParameterBuffers::counted_grads() const {
  std::map<std::int64_t, std::int64_t> counted;  // begin -> end, in the block's order
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (const ShardedTensor& tensor : parameters_[i]->tensors()) {
      const std::int64_t numel = tensor.pieces.front().extent.numel();
      if (!tensor.counts_in_norm || numel == 0) continue;
      const std::int64_t begin = layout_.offset(i) + tensor.pieces.front().storage_offset;
      const bool last = &tensor == &parameters_[i]->tensors().back();
      counted[begin] =
          last ? layout_.offset(i) + BucketLayout::room_of(*parameters_[i]) : begin + numel;
    }
  std::vector<View> pieces;
  for (const Bucket& bucket : layout_.buckets()) {
    const Range shard = layout_.shard(bucket, options_.shard);
    const View grads = own_grads(bucket);
    auto first = counted.lower_bound(bucket.range.begin);
    while (first != counted.end() && first->first < bucket.range.end) {
      Range run{first->first, first->first};
      for (; first != counted.end() && first->first == run.end && run.end < bucket.range.end;
           ++first)
        run.end = first->second;
      const Range mine = intersection(run, shard);
      if (mine.length() > 0)
        pieces.push_back(grads.slice(0, mine.begin - shard.begin, mine.length()));
    }
  }
  return pieces;
}

}  // namespace tessera
