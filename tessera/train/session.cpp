#include "tessera/train/session.h"

#include <algorithm>

#include "tessera/nn/initialize.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

Schedule schedule_of(const SessionOptions& options, int stage) {
  const PipelineShape shape{options.parallel.pipeline, options.microbatches};
  if (options.training)
    return options.split_backward ? one_f_one_b_split(shape, stage) : one_f_one_b(shape, stage);
  return forward_only(shape);
}

}  // namespace

Session::Session(const SessionOptions& options, const Rank& rank)
    : options_(options),
      memory_(options.device),
      stream_(options.device),
      kernels_(make_kernels(options.device, rank.threads)),
      mesh_(RankGrid(options.parallel, rank.size), rank.world),
      schedule_(schedule_of(options, mesh_.pipeline().rank())) {
  const LayerSite site{options.model.dtype, options.seed, mesh_.tensor().rank(),
                       mesh_.tensor().size()};
  const StagePart part =
      stage_part(options.model, mesh_.pipeline().size(), mesh_.pipeline().rank());
  const std::int64_t positions = std::max(options.shape.seq, options.model.max_position_embeddings);
  model_.emplace(options.model, options.recompute, part, site, memory_, stream_, positions);
  workspace_ = memory_.allocate(MemoryUse::workspace, DType::u8,
                                {static_cast<std::int64_t>(workspace_bytes())});
  context_.emplace(Context{*kernels_, stream_, mesh_, workspace_});
  parameters_.emplace(model_->parameters(), *context_, memory_, options.training);
  initialize_parameters(*context_, parameters_->parameters(), options.seed);
  if (options.training) optimizer_.emplace(options.optimizer, *parameters_, *context_, memory_);

  RunnerOptions run;
  run.shape = options.shape;
  run.slots = slots_needed(schedule_);
  run.microbatches = options.microbatches;
  run.recompute = options.recompute;
  run.split_backward = options.split_backward;
  run.training = options.training;
  runner_.emplace(*model_, *context_, memory_, run);
  batches_.emplace(memory_, options.shape, options.microbatches, options.training);
  make_borders();
  executor_.emplace(*runner_, mesh_.pipeline(), stream_, borders_);
}

std::size_t Session::workspace_bytes() {
  const std::int64_t keys = std::max(options_.shape.seq, options_.model.max_position_embeddings);
  std::size_t bytes = model_->workspace_bytes(*kernels_, options_.shape, keys);
  for (const Parameter* parameter : model_->parameters())
    bytes = std::max(bytes, kernels_->sum_squares_workspace_bytes(parameter->shape().numel()));
  return bytes;
}

// What passes between neighbouring stages: the residual stream and its gradient, [N, hidden].
void Session::make_borders() {
  const bool first = mesh_.pipeline().rank() == 0;
  const bool last = mesh_.pipeline().rank() == mesh_.pipeline().size() - 1;
  const Shape rows{options_.shape.rows(), options_.model.hidden_size};
  const auto carve = [&](Carver& carver) {
    const auto take = [&](bool wanted) {
      return wanted ? carver.take(options_.model.dtype, rows) : View();
    };
    borders_ = {take(!first), take(!last), take(!first), take(!last)};
  };
  Carver measure;
  carve(measure);
  border_memory_ = memory_.allocate(MemoryUse::activations, DType::u8,
                                    {static_cast<std::int64_t>(measure.bytes())});
  Carver carver(border_memory_);
  carve(carver);
}

void Session::run_microbatches() {
  runner_->set_microbatches(batches_->microbatches());
  executor_->run(schedule_);
}

}  // namespace tessera
