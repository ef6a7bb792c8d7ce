#include "tessera/model/stage_runner.h"

#include <fmt/core.h>

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

void RunnerMemory::Sizes::include(const Sizes& other) {
  activations = std::max(activations, other.activations);
  recomputed = std::max(recomputed, other.recomputed);
  scratch = std::max(scratch, other.scratch);
}

RunnerMemory::RunnerMemory(Memory& memory, const Sizes& sizes, int activation_buffers,
                           int microbatches)
    : count_(activation_buffers), buffer_bytes_((sizes.activations + 63) / 64 * 64) {
  const auto block = [&](MemoryUse use, std::size_t bytes) {
    return memory.allocate(use, DType::u8, {static_cast<std::int64_t>(bytes)});
  };
  activations_ =
      block(MemoryUse::activations, buffer_bytes_ * static_cast<std::size_t>(activation_buffers));
  recomputed_ = block(MemoryUse::activations, sizes.recomputed);
  scratch_ = block(MemoryUse::workspace, sizes.scratch);
  loss_sums_ = memory.allocate(MemoryUse::workspace, DType::f64, {microbatches});
}

View RunnerMemory::activation_buffer(int i) const {
  const auto bytes = static_cast<std::int64_t>(buffer_bytes_);
  return activations_.view().slice(0, i * bytes, bytes);
}

StageRunner::StageRunner(GptModel& model, Context& context, const RunnerOptions& options)
    : model_(model), context_(context), options_(options), fsdp_units_(model.fsdp_unit_numbers()) {
  check(!options.split_backward || options.recompute.granularity != RecomputeGranularity::full,
        "full recompute cannot be combined with a split backward");
  plan_segments();
  if (options.kept_norm_gradients)
    for (Block& block : model.blocks) block.collect_norms(kept_norms_.emplace_back());
  if (options.training && !model.mtp.empty()) mtp_.emplace(model, context, options.first_fsdp_unit);
  Arenas measure;
  plan_scratch(measure);
  plan_activations(measure);
  sizes_ = {measure.activations.bytes(), measure.recomputed.bytes(), measure.scratch.bytes()};
}

void StageRunner::set_hooks(ModuleHooks& hooks) {
  hooks_ = &hooks;
  if (mtp_) mtp_->set_hooks(hooks);
}

// ---- memory

void StageRunner::plan_segments() {
  const std::size_t layers = model_.blocks.size();
  const RecomputeOptions& recompute = options_.recompute;
  const auto group = static_cast<std::size_t>(recompute.num_layers);
  const bool full = options_.training && recompute.granularity == RecomputeGranularity::full;
  const bool uniform = full && recompute.method == RecomputeMethod::uniform;
  for (std::size_t begin = 0; begin < layers;) {
    const std::size_t end = uniform ? std::min(layers, begin + group) : begin + 1;
    segments_.push_back({begin, end, uniform || (full && begin < group)});
    begin = end;
  }
}

Shape StageRunner::local_shape() const {
  return model_.rows().local_shape(options_.shape, model_.hidden());
}

// Everything is laid out twice by the same code: once to measure, once in real memory.
void StageRunner::bind_memory(const RunnerMemory& memory) {
  Arenas arenas{{}, ArenaLayout(memory.recomputed()), ArenaLayout(memory.scratch()), {}, {}};
  arenas.segment_start = arenas.recomputed;
  plan_scratch(arenas);
  buffers_.clear();
  for (int i = 0; i < memory.activation_buffers(); ++i) {
    arenas.activations = ArenaLayout(memory.activation_buffer(i));
    buffers_.push_back(plan_activations(arenas));
  }
  loss_sums_ = memory.loss_sums();
}

// Scratch buffers that are never in use at the same time share the same memory.
void StageRunner::plan_scratch(Arenas& arenas) {
  const BatchShape& shape = options_.shape;
  const DType dtype = model_.dtype();
  ArenaLayout& scratch = arenas.scratch;
  if (options_.training) scratch_.d_residual = scratch.take(dtype, local_shape());
  ArenaLayout head = scratch;
  if (model_.head) scratch_.head = model_.head->plan_scratch(head, shape, options_.training);
  ArenaLayout embedding = scratch;
  if (model_.embedding)
    scratch_.embedding = model_.embedding->plan_scratch(embedding, shape, options_.training);
  arenas.block_start = scratch;
  if (!model_.blocks.empty() || mtp_)
    scratch_.branch = arenas.block_start.take(dtype, local_shape());
  for (const ArenaLayout& branch : {head, embedding, arenas.block_start}) scratch.include(branch);
  if (mtp_) plan_mtp(arenas);
}

// Its activations live in forward only, where those of recomputed segments are not needed.
void StageRunner::plan_mtp(Arenas& arenas) {
  ArenaLayout activations = arenas.segment_start, scratch = arenas.block_start;
  mtp_->plan(activations, scratch, options_.shape, {scratch_.branch, scratch_.d_residual});
  arenas.recomputed.include(activations);
  arenas.scratch.include(scratch);
}

Block::Saved StageRunner::plan_block(Arenas& arenas, std::size_t layer, ActivationLayout memory) {
  ArenaLayout scratch = arenas.block_start;
  Block::Saved saved = model_.blocks[layer].plan_buffers(memory, scratch, options_.shape);
  arenas.scratch.include(scratch);
  return saved;
}

void StageRunner::plan_kept(Arenas& arenas, const Segment& segment, ActivationBuffer& saved) {
  for (std::size_t i = segment.begin; i < segment.end; ++i)
    saved.layers[i] =
        plan_block(arenas, i, {arenas.activations, arenas.activations, options_.split_backward});
}

// The activation buffer saves the input of the segment; everything else is recomputed in memory
// that all segments share.
void StageRunner::plan_recomputed(Arenas& arenas, const Segment& segment, ActivationBuffer& saved) {
  ArenaLayout memory = arenas.segment_start;
  for (std::size_t i = segment.begin; i < segment.end; ++i)
    saved.layers[i] = plan_block(arenas, i, {memory, memory});
  arenas.recomputed.include(memory);
  const DType dtype = model_.dtype();
  const Shape rows = local_shape();
  if (options_.recompute.distribute_saved_activations)
    saved.input_slices[segment.begin] =
        arenas.activations.take(dtype, {rows[0] / model_.rows().ranks(), rows[1]});
  else
    saved.layers[segment.begin].x = arenas.activations.take(dtype, rows);
}

// A layer's memory can be overwritten once the next layer has run: layers alternate between two
// buffers.
void StageRunner::plan_forward_only(Arenas& arenas, ActivationBuffer& saved) {
  for (const std::size_t first : {0, 1}) {
    const ArenaLayout start = arenas.activations;
    for (std::size_t i = first; i < model_.blocks.size(); i += 2) {
      ArenaLayout memory = start;
      saved.layers[i] = plan_block(arenas, i, {memory, memory, false, false});
      arenas.activations.include(memory);
    }
  }
}

StageRunner::ActivationBuffer StageRunner::plan_activations(Arenas& arenas) {
  const DType dtype = model_.dtype();
  const Shape rows = local_shape();
  ActivationBuffer saved;
  saved.layers.resize(model_.blocks.size());
  saved.input_slices.resize(model_.blocks.size());
  if (options_.training)
    for (const Segment& segment : segments_)
      segment.recompute ? plan_recomputed(arenas, segment, saved)
                        : plan_kept(arenas, segment, saved);
  else
    plan_forward_only(arenas, saved);
  for (const ParameterList& norms : kept_norms_) {
    std::vector<View>& kept = saved.norm_gradients.emplace_back();
    for (const Parameter* norm : norms)
      if (norm->trained())
        kept.push_back(arenas.activations.take(*options_.kept_norm_gradients, norm->shape()));
  }
  if (model_.head) {
    saved.final_x = arenas.activations.take(dtype, rows);
    saved.final_stats = arenas.activations.take(accumulator_type(dtype), {rows[0], 2});
    ActivationLayout memory{arenas.activations, arenas.activations};
    saved.head = model_.head->plan_buffers(memory, options_.shape);
  }
  return saved;
}

// ---- running

void StageRunner::set_microbatches(std::span<const Microbatch> microbatches) {
  check(static_cast<int>(microbatches.size()) <= options_.microbatches,
        "planned for {} microbatches, got {}", options_.microbatches, microbatches.size());
  for (const Microbatch& batch : microbatches)
    check(batch.shape == options_.shape, "planned for {} x {} tokens, got {} x {}",
          options_.shape.seq, options_.shape.batch, batch.shape.seq, batch.shape.batch);
  microbatches_ = microbatches;
}

const Microbatch& StageRunner::microbatch_at(int microbatch) const {
  check(microbatch >= 0 && microbatch < static_cast<int>(microbatches_.size()),
        "microbatch {} is out of range: the step has {}", microbatch, microbatches_.size());
  return microbatches_[static_cast<std::size_t>(microbatch)];
}

View StageRunner::token_losses(int buffer) const {
  return buffers_[static_cast<std::size_t>(buffer)].head.loss;
}

std::vector<StageRunner::ResidualSnapshot> StageRunner::saved_residuals(int buffer) const {
  const ActivationBuffer& saved = buffers_[static_cast<std::size_t>(buffer)];
  const int shards = model_.rows().shards();
  std::vector<ResidualSnapshot> snapshots;
  const std::int64_t first = model_.part().layers.begin;
  std::string before = first == 0 ? "embedding" : fmt::format("layers.{}.mlp", first - 1);
  for (const Segment& segment : segments_)
    for (std::size_t i = segment.begin; i < segment.end; ++i) {
      const std::string name = fmt::format("layers.{}", layer_number(i));
      // A recomputed segment saves only the input of its first layer.
      const bool input = !segment.recompute || (i == segment.begin && !saved.input_slices[i]);
      if (input) snapshots.push_back({before, saved.layers[i].x, shards});
      if (!segment.recompute && model_.blocks[i].keeps_x1())
        snapshots.push_back({name + ".attention", saved.layers[i].x1, shards});
      before = name + ".mlp";
    }
  if (model_.head) snapshots.push_back({before, saved.final_x, shards});
  return snapshots;
}

void StageRunner::copy(const View& to, const ConstView& from) {
  context_.kernels.copy(context_.stream, to, from.reshape(to.shape()));
}

void StageRunner::input_or_embedding(const Microbatch& batch, View x, ConstView in) {
  const TraceRange range(context_.trace, model_.embedding ? "embedding forward" : "stage input");
  // An empty stage, whose input and output are the same buffer.
  if (!model_.embedding && x.raw() == in.raw()) return;
  if (!model_.embedding) return copy(x, in);
  before_use(fsdp_units_.table, NextFsdpUnit::following);
  // The units of the word and the position embeddings are both in use and take both gather buffers
  // (ZeRO 3), so nothing may be prefetched.
  if (fsdp_units_.embedding != fsdp_units_.table)
    before_use(fsdp_units_.embedding, NextFsdpUnit::unknown);
  model_.embedding->forward(context_, batch, x.reshape(local_shape()), scratch_.embedding);
}

void StageRunner::start_first_block(ActivationBuffer& saved) {
  before_use(fsdp_units_.block(0), after(0));
  model_.blocks.front().start_first(context_, saved.layers.front());
}

void StageRunner::run_blocks(const Microbatch& batch, ActivationBuffer& saved, ConstView in) {
  input_or_embedding(batch, saved.layers.front().x, in);
  start_first_block(saved);
  for (std::size_t i = 0; i < saved.layers.size(); ++i) {
    const TraceRange range(context_.trace, "block forward", layer_number(i));
    save_input_slice(saved, i);
    model_.blocks[i].forward(context_, batch, scratch_.branch, saved.layers[i]);
    if (i + 1 < saved.layers.size()) add_branch_and_start_next(batch, saved, i, after(i + 1));
  }
}

// Adds a layer's branch to the residual stream, fused with the first norm of the next layer.
void StageRunner::add_branch_and_start_next(const Microbatch& batch, ActivationBuffer& saved,
                                            std::size_t layer, NextFsdpUnit after_next) {
  before_use(fsdp_units_.block(layer + 1), after_next);
  model_.blocks[layer + 1].add_and_start(context_, saved.layers[layer + 1], saved.layers[layer].x1,
                                         scratch_.branch,
                                         model_.blocks[layer].branch_dropout(batch));
}

void StageRunner::forward(int microbatch, int buffer, View out, ConstView in) {
  const TraceRange whole(context_.trace, "forward", microbatch);
  const Microbatch& batch = microbatch_at(microbatch);
  ActivationBuffer& saved = buffer_at(buffer);
  run_stage(batch, saved, out, in);
  if (forward_callback_) forward_callback_(microbatch, buffer);
  if (model_.head) run_head(microbatch, batch, saved);
}

void StageRunner::run_head(int microbatch, const Microbatch& batch, ActivationBuffer& saved) {
  const TraceRange range(context_.trace, "head");
  const bool predicts_further = batch.training && mtp_;
  if (predicts_further) mtp_->take_hidden(saved.head.x);
  if (batch.training) before_gradients(fsdp_units_.head);
  model_.head->forward(context_, batch, saved.head, scratch_.head);
  // With tied embeddings on this chunk, the embedding's backward adds the rest of the gradient, so
  // this is not the last contribution. Nor is it with multi-token prediction.
  if (batch.training)
    gradients_added(fsdp_units_.head, fsdp_units_.head != fsdp_units_.table && !predicts_further);
  context_.kernels.masked_sum(context_.stream, loss_sums_.slice(0, microbatch, 1), saved.head.loss,
                              batch.mask, false);
  if (predicts_further) mtp_->run(batch, saved.head.x, scratch_.head);
}

// Forward of the chunk up to the input of the next stage, or of the output layer.
void StageRunner::run_stage(const Microbatch& batch, ActivationBuffer& saved, View out,
                            ConstView in) {
  if (model_.blocks.empty() && !model_.head) return input_or_embedding(batch, out, in);
  if (model_.blocks.empty())
    input_or_embedding(batch, saved.final_x, in);
  else
    run_blocks(batch, saved, in);
  if (model_.head) return final_norm_forward(batch, saved);
  const TraceRange range(context_.trace, "stage output");
  const View x1 = saved.layers.back().x1;
  context_.kernels.add_dropout(context_.stream, out.reshape(x1.shape()), x1, scratch_.branch,
                               model_.blocks.back().branch_dropout(batch));
}

// Adds the last branch and applies the final norm, which gives the input of the output layer.
void StageRunner::final_norm_forward(const Microbatch& batch, ActivationBuffer& saved) {
  const bool own_table = fsdp_units_.head != fsdp_units_.table;
  before_use(fsdp_units_.final_norm, own_table ? NextFsdpUnit::following : NextFsdpUnit::unknown);
  if (model_.blocks.empty())
    model_.final_norm->forward(context_, saved.head.x, saved.final_stats, saved.final_x);
  else
    model_.final_norm->add_forward(context_, saved.head.x, saved.final_x, saved.final_stats,
                                   saved.layers.back().x1, scratch_.branch,
                                   model_.blocks.back().branch_dropout(batch));
  before_use(fsdp_units_.head, NextFsdpUnit::unknown);
}

void StageRunner::forward_hidden(const Microbatch& batch, View out, ConstView in) {
  run_stage(batch, buffers_.front(), out, in);
}

void StageRunner::forward_logits(const Microbatch& batch, View logits, ConstView in) {
  ActivationBuffer& saved = buffers_.front();
  run_stage(batch, saved, {}, in);
  const std::int64_t rows = logits.dim(0);
  model_.head->logits(context_, logits, saved.head.x.slice(0, batch.shape.rows() - rows, rows));
}

void StageRunner::save_input_slice(ActivationBuffer& saved, std::size_t layer) {
  const View& slice = saved.input_slices[layer];
  if (!slice) return;
  const std::int64_t rows = slice.dim(0);
  context_.kernels.copy(context_.stream, slice,
                        saved.layers[layer].x.slice(0, context_.mesh.tensor().rank() * rows, rows));
}

void StageRunner::restore_input(ActivationBuffer& saved, std::size_t layer) {
  const View& slice = saved.input_slices[layer];
  if (!slice) return;
  Communicator& group = context_.mesh.tensor();
  const View all = saved.layers[layer].x.reshape({group.size(), slice.dim(0), slice.dim(1)});
  group.all_gather(all, slice, context_.stream)->wait(context_.stream);
}

void StageRunner::keep_norm_gradients(ActivationBuffer& saved, std::size_t layer) {
  auto kept = saved.norm_gradients[layer].begin();
  for (Parameter* norm : kept_norms_[layer]) {
    if (norm->trained()) copy(*kept++, norm->grad_view());
    norm->begin_step();  // the next microbatch overwrites the gradient
  }
}

void StageRunner::restore_norm_gradients(ActivationBuffer& saved, std::size_t layer) {
  if (kept_norms_.empty()) return;
  auto kept = saved.norm_gradients[layer].begin();
  for (Parameter* norm : kept_norms_[layer])
    if (norm->trained()) copy(norm->grad().view, *kept++);
}

// Runs forward again from the segment's saved input. Random numbers are functions of global
// coordinates, so dropout gives the same masks.
void StageRunner::recompute_segment(const Microbatch& batch, ActivationBuffer& saved,
                                    const Segment& segment) {
  const TraceRange whole(context_.trace, "recompute");
  restore_input(saved, segment.begin);
  before_use(fsdp_units_.block(segment.begin), NextFsdpUnit::unknown);
  model_.blocks[segment.begin].start_first(context_, saved.layers[segment.begin]);
  for (std::size_t i = segment.begin; i < segment.end; ++i) {
    const TraceRange range(context_.trace, "block forward", layer_number(i));
    model_.blocks[i].forward(context_, batch, scratch_.branch, saved.layers[i]);
    if (i + 1 < segment.end)
      add_branch_and_start_next(
          batch, saved, i, i + 2 < segment.end ? NextFsdpUnit::following : NextFsdpUnit::unknown);
  }
}

void StageRunner::backward(int microbatch, int buffer, View d_in, ConstView d_out) {
  run_backward(microbatch, buffer_at(buffer), d_in, d_out, true);
}

void StageRunner::backward_input(int microbatch, int buffer, View d_in, ConstView d_out) {
  check(options_.split_backward, "this stage was planned without a split backward");
  run_backward(microbatch, buffer_at(buffer), d_in, d_out, false);
}

void StageRunner::backward_weight(int microbatch, int buffer) {
  const TraceRange whole(context_.trace, "backward weights", microbatch);
  ActivationBuffer& kept = buffer_at(buffer);
  for (std::size_t i = model_.blocks.size(); i-- > 0;) {
    const TraceRange range(context_.trace, "block backward weights", layer_number(i));
    before_gradients(fsdp_units_.block(i));
    restore_norm_gradients(kept, i);
    model_.blocks[i].backward_weight(context_, kept.layers[i]);
    gradients_added(fsdp_units_.block(i), true);
  }
}

void StageRunner::run_backward(int microbatch, ActivationBuffer& saved, View d_in, ConstView d_out,
                               bool weights_too) {
  const TraceRange whole(context_.trace, weights_too ? "backward" : "backward inputs", microbatch);
  const Microbatch& batch = microbatch_at(microbatch);
  const View d_residual = scratch_.d_residual;
  if (model_.head) {
    const TraceRange range(context_.trace, "final norm backward");
    before_use(fsdp_units_.final_norm,
               model_.blocks.empty() ? NextFsdpUnit::unknown : NextFsdpUnit::preceding);
    before_gradients(fsdp_units_.final_norm);
    model_.final_norm->backward(context_, d_residual, saved.head.x, saved.final_x,
                                saved.final_stats, false);
    gradients_added(fsdp_units_.final_norm, true);
  } else {
    copy(d_residual, d_out);
  }
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    if (segment->recompute) recompute_segment(batch, saved, *segment);
    for (std::size_t i = segment->end; i-- > segment->begin;) {
      const TraceRange range(context_.trace, "block backward", layer_number(i));
      // Prefetch hint. No hint at the first layer (backward of the embedding reads no weights), or
      // before a recomputed segment of more than two layers: its recompute starts at its first
      // layer, and with two gather buffers a prefetched last layer would be overwritten before use.
      const bool recomputes_next = segment + 1 != segments_.rend() && (segment + 1)->recompute &&
                                   (segment + 1)->end - (segment + 1)->begin > 2;
      const bool next_is_preceding = i > segment->begin || (i > 0 && !recomputes_next);
      before_use(fsdp_units_.block(i),
                 next_is_preceding ? NextFsdpUnit::preceding : NextFsdpUnit::unknown);
      before_gradients(fsdp_units_.block(i));
      model_.blocks[i].backward_input(context_, batch, d_residual, saved.layers[i], weights_too);
      // Without weights_too, only the norm gradients have been added.
      if (weights_too || kept_norms_.empty())
        gradients_added(fsdp_units_.block(i), weights_too);
      else
        keep_norm_gradients(saved, i);
    }
  }
  const TraceRange range(context_.trace,
                         model_.embedding ? "embedding backward" : "stage input backward");
  if (model_.embedding)
    embedding_backward(batch);
  else
    copy(d_in.reshape(d_residual.shape()), d_residual);
}

void StageRunner::embedding_backward(const Microbatch& batch) {
  const bool table_is_own_unit = fsdp_units_.embedding != fsdp_units_.table;
  before_gradients(fsdp_units_.embedding);
  const Embedding::Pending pending =
      model_.embedding->start_backward(context_, batch, scratch_.d_residual, scratch_.embedding);
  if (table_is_own_unit) {
    gradients_added(fsdp_units_.embedding, true);
    before_gradients(fsdp_units_.table);
  }
  model_.embedding->finish_backward(context_, batch, pending, scratch_.embedding);
  gradients_added(fsdp_units_.table, true);
}

}  // namespace tessera
