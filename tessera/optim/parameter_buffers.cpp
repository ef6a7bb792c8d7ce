#include "tessera/optim/parameter_buffers.h"

#include <algorithm>
#include <map>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Megatron's rule: large enough to use the network well for any number of ranks.
constexpr std::int64_t kLeastBucket = 40'000'000;
constexpr std::int64_t kBucketPerRank = 1'000'000;

// The FSDP units, each with its parameters of the class.
std::vector<ParameterList> units_of_class(const std::vector<ParameterList>& units,
                                          PlacementClass placement_class) {
  std::vector<ParameterList> filtered(units.size());
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    for (Parameter* parameter : units[unit])
      if (parameter->placement_class() == placement_class) filtered[unit].push_back(parameter);
  return filtered;
}

ParameterList joined(const std::vector<ParameterList>& units) {
  ParameterList all;
  for (const ParameterList& unit : units) all.insert(all.end(), unit.begin(), unit.end());
  return all;
}

// The longest bucket with even (0) or odd (1) index.
std::int64_t longest_bucket(std::span<const Bucket> buckets, std::size_t parity) {
  std::int64_t longest = 0;
  for (std::size_t i = parity; i < buckets.size(); i += 2)
    longest = std::max(longest, buckets[i].range.length());
  return longest;
}

std::int64_t longest_bucket(std::span<const Bucket> buckets) {
  return std::max(longest_bucket(buckets, 0), longest_bucket(buckets, 1));
}

}  // namespace

ParameterBuffers::Options ParameterBuffers::options_for(const ParallelOptions& parallel,
                                                        PlacementClass placement_class, int shard,
                                                        DType dtype,
                                                        std::optional<DType> gradients) {
  const PlacementSizes sizes = placement_sizes(parallel, placement_class);
  Options options;
  options.placement_class = placement_class;
  if (placement_class == PlacementClass::buffer) {
    options.dtype = accumulator_type(dtype);
    return options;
  }
  options.dtype = dtype;
  options.gradients = gradients;
  options.bf16_communication = gradients && sizes.data_parallel > 1 &&
                               (parallel.grad_reduce_in_bf16 || gradients == DType::bf16);
  options.shards = sizes.sharding;
  options.shard = shard;
  if (options.bf16_communication) options.shard_parts = sizes.replication();
  options.shard_gradients = parallel.sharding >= Sharding::gradients;
  options.shard_values = parallel.sharding == Sharding::parameters;
  if (options.shard_gradients)
    options.bucket_elements = 1;  // every FSDP unit is a bucket
  else if (parallel.bucket_elements > 0)
    options.bucket_elements = parallel.bucket_elements;
  else if (sizes.data_parallel > 1)
    options.bucket_elements = std::max(kLeastBucket, kBucketPerRank * sizes.data_parallel);
  return options;
}

BucketLayout ParameterBuffers::layout_for(const std::vector<ParameterList>& units,
                                          const Options& options) {
  return {units_of_class(units, options.placement_class), options.shards, options.bucket_elements,
          options.shard_parts};
}

ParameterBuffers::ParameterBuffers(const std::vector<ParameterList>& units, Context& context,
                                   Memory& memory, const Options& options)
    : options_(options),
      parameters_(joined(units_of_class(units, options.placement_class))),
      layout_(layout_for(units, options)) {
  allocate(context, memory);
  for (const Bucket& bucket : layout_.buckets())
    for (const std::size_t i : bucket.parameters)
      parameters_[i]->bind(part(whole_values(bucket), i),
                           options.gradients ? grad_of(bucket, i) : View());
}

// Kernels that compute several gradients at once also write those of frozen vectors.
View ParameterBuffers::grad_of(const Bucket& bucket, std::size_t parameter) const {
  if (bucket.trained) return part(whole_grads(bucket), parameter);
  const Shape& shape = parameters_[parameter]->shape();
  return shape.rank() == 1 ? unread_.view().slice(0, 0, shape[0]) : View();
}

void ParameterBuffers::allocate(Context& context, Memory& memory) {
  const DType dtype = options_.dtype;
  const auto zeros = [&](MemoryUse use, DType type, std::int64_t elements) {
    Tensor tensor = memory.allocate(use, type, {elements});
    context.kernels.fill(context.stream, tensor, 0);
    return tensor;
  };
  // Allocates only if there are elements.
  const auto zeros_if_any = [&](MemoryUse use, DType type, std::int64_t elements) {
    return elements > 0 ? zeros(use, type, elements) : Tensor();
  };
  const Elements elements = elements_for(layout_, options_);
  values_ = zeros(MemoryUse::parameters, dtype, elements.values);
  for (const std::size_t parity : {0u, 1u}) {
    slots_[parity] = zeros_if_any(MemoryUse::parameters, dtype, elements.slots[parity]);
    frozen_slots_[parity] =
        zeros_if_any(MemoryUse::parameters, dtype, elements.frozen_slots[parity]);
  }
  if (!options_.gradients) return;
  const DType type = *options_.gradients;
  // A rank without trained parameters has an empty tensor of the same type as the others.
  grads_ = zeros(MemoryUse::gradients, type, elements.grads);
  grad_slot_ = zeros_if_any(MemoryUse::gradients, type, elements.grad_slot);
  unread_ = zeros_if_any(MemoryUse::gradients, type, elements.unread);
  bf16_in_ = zeros_if_any(MemoryUse::gradients, DType::bf16, elements.bf16_in);
  bf16_out_ = zeros_if_any(MemoryUse::gradients, DType::bf16, elements.bf16_out);
}

ParameterBuffers::Elements ParameterBuffers::elements_for(const BucketLayout& layout,
                                                          const Options& options) {
  Elements elements;
  elements.values = layout.elements() / (options.shard_values ? options.shards : 1);
  if (options.shard_values)
    for (const std::size_t parity : {0u, 1u}) {
      elements.slots[parity] = longest_bucket(layout.trained(), parity);
      elements.frozen_slots[parity] = longest_bucket(layout.frozen(), parity);
    }
  if (!options.gradients) return elements;
  elements.grads = layout.trained_elements() / (options.shard_gradients ? options.shards : 1);
  elements.unread = layout.longest_frozen_vector();
  if (options.bf16_communication) elements.bf16_in = longest_bucket(layout.trained());
  if (options.gradients != DType::bf16)
    elements.bf16_out = elements.bf16_in;  // otherwise gradients are sent from where they are
  if (options.shard_gradients) elements.grad_slot = longest_bucket(layout.trained());
  return elements;
}

View ParameterBuffers::part(const View& bucket, std::size_t parameter) const {
  const Shape& shape = parameters_[parameter]->shape();
  const std::int64_t begin = layout_.offset(parameter) - layout_.bucket_of(parameter).range.begin;
  return bucket.slice(0, begin, shape.numel()).reshape(shape);
}

View ParameterBuffers::bucket_in(const ParameterBlock& block, const Bucket& bucket) const {
  check(!block.sharded, "a sharded block has no whole buckets");
  return part_of(block.memory, bucket.range);
}

View ParameterBuffers::shard_in(const ParameterBlock& block, const Bucket& bucket) const {
  const Range shard = layout_.shard(bucket, options_.shard);
  if (!block.sharded) return part_of(block.memory, shard);
  return block.memory.slice(0, layout_.shard_offset(bucket), shard.length());
}

View ParameterBuffers::whole_values(const Bucket& bucket) const {
  if (!options_.shard_values) return bucket_in(values(), bucket);
  const auto& slots = bucket.trained ? slots_ : frozen_slots_;
  return slots[bucket.number % 2].view().slice(0, 0, bucket.range.length());
}

View ParameterBuffers::whole_grads(const Bucket& bucket) const {
  if (!options_.shard_gradients) return bucket_in(grads(), bucket);
  return grad_slot_.view().slice(0, 0, bucket.range.length());
}

View ParameterBuffers::own_values(const Bucket& bucket) const { return shard_in(values(), bucket); }
View ParameterBuffers::own_grads(const Bucket& bucket) const { return shard_in(grads(), bucket); }

namespace {

// Cuts a range where the parts begin and end that lie in it: those with a rate of their own.
std::vector<std::pair<Range, bool>> cut_out(const Range& range, const std::vector<Range>& parts) {
  std::vector<std::pair<Range, bool>> pieces;
  Range rest = range;
  for (const Range& part : parts) {
    const Range inside = intersection(rest, part);
    if (inside.length() == 0) continue;
    if (inside.begin > rest.begin) pieces.push_back({{rest.begin, inside.begin}, false});
    pieces.push_back({inside, true});
    rest.begin = inside.end;
  }
  if (rest.length() > 0) pieces.push_back({rest, false});
  return pieces;
}

bool is_token_table(const Parameter& parameter) {
  return parameter.name() == kTokenTableName || parameter.name() == kOutputTableName;
}

}  // namespace

std::vector<ParameterBuffers::Owned> ParameterBuffers::owned(bool decoupled) const {
  std::vector<Owned> all;
  for (const Bucket& bucket : layout_.trained()) {
    const Range shard = layout_.shard(bucket, options_.shard);
    std::vector<Range> tables;
    for (const std::size_t i : bucket.parameters)
      if (decoupled && is_token_table(*parameters_[i]))
        tables.push_back({layout_.offset(i),
                          layout_.offset(i) + BucketLayout::padded_elements(*parameters_[i])});
    std::ranges::sort(tables, {}, &Range::begin);
    for (const ParameterGroupRange& group_range : bucket.group_ranges) {
      for (const auto& [mine, is_table] : cut_out(intersection(group_range.range, shard), tables)) {
        const std::int64_t at = mine.begin - shard.begin;
        const std::int64_t state = layout_.shard_offset(bucket) + at;
        all.push_back({own_values(bucket).slice(0, at, mine.length()),
                       own_grads(bucket).slice(0, at, mine.length()),
                       {state, state + mine.length()},
                       group_range.decays,
                       is_table});
      }
    }
  }
  return all;
}

// What this rank counts of its shard of a bucket, in the order of the block: of tensors that
// several ranks hold, the primary ones. With the padding behind parameters, neighbours are one
// range.
std::vector<Range> ParameterBuffers::counted_ranges(const Bucket& bucket, bool padded) const {
  std::map<std::int64_t, std::int64_t> counted;  // begin -> end
  for (const std::size_t i : bucket.parameters) {
    const std::int64_t numel = parameters_[i]->shape().numel(), at = layout_.offset(i);
    const std::int64_t end = padded ? BucketLayout::padded_elements(*parameters_[i]) : numel;
    for (const ShardedTensor& tensor : parameters_[i]->tensors())
      for (const ShardPiece& piece : tensor.pieces)
        for (const Range& run : contiguous_ranges(piece))
          if (tensor.primary) counted[at + run.begin] = at + (run.end == numel ? end : run.end);
  }
  const Range shard = layout_.shard(bucket, options_.shard);
  std::vector<Range> ranges;
  for (auto first = counted.begin(); first != counted.end();) {
    Range run{first->first, first->first};
    for (; first != counted.end() && first->first == run.end; ++first) run.end = first->second;
    const Range mine = intersection(run, shard);
    if (mine.length() > 0) ranges.push_back({mine.begin - shard.begin, mine.end - shard.begin});
  }
  return ranges;
}

std::vector<View> ParameterBuffers::counted_grads() const {
  std::vector<View> parts;
  for (const Bucket& bucket : layout_.trained())
    for (const Range& range : counted_ranges(bucket, true))
      parts.push_back(part_of(own_grads(bucket), range));
  return parts;
}

std::vector<View> ParameterBuffers::counted_values() const {
  std::vector<View> parts;
  for (const Bucket& bucket : layout_.buckets())
    for (const Range& range : counted_ranges(bucket, true))
      parts.push_back(part_of(own_values(bucket), range));
  return parts;
}

std::int64_t ParameterBuffers::counted_elements() const {
  std::int64_t elements = 0;
  for (const Bucket& bucket : layout_.trained())
    for (const Range& range : counted_ranges(bucket, false)) elements += range.length();
  return elements;
}

}  // namespace tessera
