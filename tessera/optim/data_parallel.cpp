#include "tessera/optim/data_parallel.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

// A flat view with a length that is a multiple of 64, as rows that threads can share.
template <class V>
V rows_of(const V& flat) {
  return flat.reshape({flat.numel() / 64, 64});
}

}  // namespace

DataParallel::DataParallel(ParameterBuffers& buffers, Context& context, const Options& options)
    : buffers_(buffers),
      context_(context),
      groups_(context.mesh.groups(buffers.placement_class())),
      options_(options),
      reductions_(context.stream.device()),
      forked_(context.stream.device()),
      reduced_(context.stream.device()),
      progress_(buffers.layout().trained().size()),
      gathers_(buffers.layout().buckets().size()) {
  if (buffers.bf16_in())
    bf16_reduce_.emplace(context.kernels, buffers.bf16_out(), buffers.bf16_in());
}

View DataParallel::by_rank(const View& bucket) const {
  const int ranks = groups_.sharding->size();
  return bucket.reshape({ranks, bucket.numel() / ranks});
}

// A captured graph does the same in every step, so nothing may depend on earlier steps, such as
// which values have changed or are gathered.
void DataParallel::begin_step() {
  finish_reductions();  // if the microbatches run a second time
  progress_.assign(progress_.size(), {});
  forget_buffers();
  if (options_.overlap_param_gather && gathers_after_update()) gather_all();
  for (Parameter* parameter : buffers_.parameters()) parameter->begin_step();
}

// ---- gradients

void DataParallel::before_gradients(std::size_t) {
  if (shards_gradients())
    wait_for_reductions();  // they read the buffer that gradients are written to
}

void DataParallel::reductions_started() {
  reduced_.record(reductions_);
  reducing_ = true;
}

void DataParallel::wait_for_reductions() {
  if (!reducing_) return;
  reduced_.wait(context_.stream);
  reducing_ = false;
}

void DataParallel::gradients_added(std::size_t unit, bool last) {
  const Bucket* bucket = buffers_.layout().trained_of(unit);
  if (!bucket) return;
  if (shards_gradients()) return reduce(*bucket);
  if (!last) return;
  Progress& progress = progress_[bucket->number];
  progress.added += 1;
  if (options_.overlap_grad_reduce &&
      progress.added == options_.microbatches * static_cast<int>(bucket->fsdp_units.size()))
    reduce(*bucket);
}

void DataParallel::reduce(const Bucket& bucket) {
  zero_missing_gradients(bucket);
  forked_.record(context_.stream);
  forked_.wait(reductions_);
  reduce_partial_gradients(bucket);
  if (bf16_reduce_)
    scatter_bf16(bucket, progress_[bucket.number]);
  else
    scatter_to_shards(bucket, progress_[bucket.number]);
}

// Zeros the gradients of parameters that got no contribution.
void DataParallel::zero_missing_gradients(const Bucket& bucket) {
  const View grads = buffers_.whole_grads(bucket);
  for (const std::size_t i : bucket.parameters) {
    Parameter& parameter = *buffers_.parameters()[i];
    if (!parameter.contributed()) context_.kernels.fill(context_.stream, parameter.grad_view(), 0);
  }
  if (!shards_gradients()) return;
  reset_accumulation(bucket);
  for (const Range& gap : bucket.gaps)
    context_.kernels.fill(context_.stream,
                          grads.slice(0, gap.begin - bucket.range.begin, gap.length()), 0);
}

// With sharded gradients the next microbatch overwrites the gradient buffer.
void DataParallel::reset_accumulation(const Bucket& bucket) {
  const auto begin = [&](const Bucket& each) {
    for (const std::size_t i : each.parameters) buffers_.parameters()[i]->begin_step();
  };
  begin(bucket);
  if (const Bucket* frozen = buffers_.layout().frozen_of(bucket.fsdp_units.front())) begin(*frozen);
}

// Partial gradients of model-parallel ranks are reduced first: only then do the data-parallel ranks
// hold gradients of the same kind.
void DataParallel::reduce_partial_gradients(const Bucket& bucket) {
  std::vector<WorkHandle> sums;
  const auto sum = [&](GradientGroup over, const View& part) {
    sums.push_back(context_.mesh.gradient_group(over).all_reduce(part, ReduceOp::sum, reductions_));
  };
  const View grads = buffers_.whole_grads(bucket);
  for (const PartialGradient& partial : bucket.partial_gradients)
    sum(partial.over,
        grads.slice(0, partial.range.begin - bucket.range.begin, partial.range.length()));
  for (const std::size_t i : bucket.parameters) {
    const Parameter& parameter = *buffers_.parameters()[i];
    const View flat = parameter.grad_view().reshape({parameter.shape().numel()});
    for (const ShardedTensor& tensor : parameter.tensors()) {
      const GradientGroup over = tensor.placement.gradient_group;
      if (over == parameter.gradient_group()) continue;  // reduced with the others of its range
      for (const ShardPiece& piece : tensor.pieces)
        for (const Range& range : contiguous_ranges(piece)) sum(over, part_of(flat, range));
    }
  }
  for (const WorkHandle& work : sums) work->wait(reductions_);
}

void DataParallel::scatter_to_shards(const Bucket& bucket, Progress& progress) {
  Communicator& sharding = *groups_.sharding;
  Communicator& replication = *groups_.replication;
  const View parts = by_rank(buffers_.whole_grads(bucket));
  const View own = buffers_.own_grads(bucket);
  const bool adds = shards_gradients() && progress.reduced;
  // The reduced gradients of later microbatches are first written to this rank's part of the
  // buffer.
  const View sum = adds ? parts.slice(0, sharding.rank(), 1).reshape(own.shape()) : own;
  WorkHandle work = sharding.reduce_scatter(sum, parts, ReduceOp::sum, reductions_);
  progress.reduced = true;
  if (!shards_gradients() && replication.size() > 1) {
    if (sharding.size() > 1) work->wait(reductions_);
    work = replication.all_reduce(own, ReduceOp::sum, reductions_);
  }
  if (!shards_gradients()) {
    pending_reductions_.push_back(work);
    return;
  }
  work->wait(reductions_);
  if (adds)
    context_.kernels.add_dropout(reductions_, rows_of(own), rows_of(ConstView(own)),
                                 rows_of(ConstView(sum)), {});
  reductions_started();
}

void DataParallel::scatter_bf16(const Bucket& bucket, Progress& progress) {
  const View own = buffers_.own_grads(bucket);
  bf16_reduce_->scatter(*groups_.sharding, own, by_rank(buffers_.whole_grads(bucket)),
                        shards_gradients() && progress.reduced, reductions_);
  if (!shards_gradients()) bf16_reduce_->all(*groups_.replication, own, reductions_);
  progress.reduced = true;
  reductions_started();
}

// With sharded gradients, after the last microbatch.
void DataParallel::all_reduce_over_replicas() {
  Communicator& replication = *groups_.replication;
  if (!shards_gradients() || replication.size() == 1) return;
  if (!bf16_reduce_) {
    replication.all_reduce(buffers_.grads().memory, ReduceOp::sum, context_.stream)
        ->wait(context_.stream);
    return;
  }
  for (const Bucket& bucket : buffers_.layout().trained())
    bf16_reduce_->all(replication, buffers_.own_grads(bucket), context_.stream);
}

// The first and the last stage each have a partial gradient; one rank may have both.
void DataParallel::all_reduce_tied_embedding() {
  std::vector<View> mine;
  for (const Bucket& bucket : buffers_.layout().trained())
    if (buffers_.parameters()[bucket.parameters.front()]->tied())
      mine.push_back(buffers_.own_grads(bucket));
  if (mine.size() == 1)
    context_.mesh.embedding_group()
        .all_reduce(mine.front(), ReduceOp::sum, context_.stream)
        ->wait(context_.stream);
  if (mine.size() < 2) return;
  const View first = rows_of(mine[0]), last = rows_of(mine[1]);
  context_.kernels.add_dropout(context_.stream, first, ConstView(first), ConstView(last), {});
  context_.kernels.copy(context_.stream, last, first);
}

void DataParallel::finish_reductions() {
  for (const WorkHandle& sum : pending_reductions_) sum->wait(context_.stream);
  pending_reductions_.clear();
  wait_for_reductions();
}

void DataParallel::finish_gradients() {
  for (std::size_t i = progress_.size(); i-- > 0;)
    if (!progress_[i].reduced) reduce(buffers_.layout().trained()[i]);
  reductions_started();  // a graph capture must join all forked streams
  finish_reductions();
  all_reduce_over_replicas();
  all_reduce_tied_embedding();
  wait_for_param_gather();  // of FSDP units that were not used
}

// ---- parameters

WorkHandle& DataParallel::gather_of(const Bucket& bucket) {
  return gathers_[static_cast<std::size_t>(&bucket - buffers_.layout().buckets().data())];
}

void DataParallel::gather_bucket(const Bucket& bucket) {
  gather_of(bucket) = groups_.sharding->all_gather(by_rank(buffers_.whole_values(bucket)),
                                                   buffers_.own_values(bucket), context_.stream);
}

bool DataParallel::gathers_after_update() const {
  return !shards_parameters() && groups_.sharding->size() > 1;
}

void DataParallel::gather_all() {
  for (const Bucket& bucket : buffers_.layout().trained()) gather_bucket(bucket);
  stale_ = false;
}

void DataParallel::parameters_updated() {
  forget_buffers();
  stale_ = gathers_after_update();
  if (!options_.overlap_param_gather) wait_for_param_gather();
}

void DataParallel::step_replayed() {
  forget_buffers();
  stale_ = options_.overlap_param_gather && gathers_after_update();
}

void DataParallel::wait_for_param_gather() {
  if (stale_) gather_all();
  for (WorkHandle& gather : gathers_)
    if (WorkHandle work = std::move(gather)) work->wait(context_.stream);
}

void DataParallel::before_use(std::size_t unit, NextFsdpUnit next) {
  const BucketLayout& layout = buffers_.layout();
  if (const Bucket* bucket = layout.trained_of(unit)) use_bucket(layout.trained(), *bucket, next);
  if (const Bucket* bucket = layout.frozen_of(unit)) use_bucket(layout.frozen(), *bucket, next);
}

void DataParallel::use_bucket(std::span<const Bucket> all, const Bucket& bucket,
                              NextFsdpUnit next) {
  const auto fetch = [&](std::size_t number) {
    const Bucket*& resident = resident_[bucket.trained ? 0 : 1][number % 2];
    if (resident == &all[number]) return;
    // Nothing has waited for the values in this buffer yet: they must arrive before it is reused.
    if (resident)
      if (WorkHandle work = std::move(gather_of(*resident))) work->wait(context_.stream);
    resident = &all[number];
    gather_bucket(all[number]);
  };
  if (shards_parameters()) fetch(bucket.number);
  if (WorkHandle work = std::move(gather_of(bucket))) work->wait(context_.stream);
  if (!shards_parameters()) return;
  if (next == NextFsdpUnit::following && bucket.number + 1 < all.size()) fetch(bucket.number + 1);
  if (next == NextFsdpUnit::preceding && bucket.number > 0) fetch(bucket.number - 1);
}

}  // namespace tessera
