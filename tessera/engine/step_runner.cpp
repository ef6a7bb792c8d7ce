#include "tessera/engine/step_runner.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tessera/launch/compare.h"

namespace tessera {
namespace {

BatchShare batch_share(const SessionOptions& options, const Mesh& mesh) {
  return {{mesh.tensor_column().size(), mesh.tensor_column().rank()},
          {mesh.context().size(), mesh.context().rank()},
          options.parallel.data};
}

// f64 memory for `each` values of every data-parallel rank.
Tensor of_all_data_ranks(const StepRunner::Parts& parts, std::int64_t each) {
  return parts.memory.allocate(MemoryUse::data, DType::f64,
                               {parts.context.mesh.data().size() * each});
}

}  // namespace

bool share_autotuned(Kernels& kernels, Stream& stream, Communicator& world) {
  if (stream.device().kind == DeviceKind::cpu) return false;  // no autotuner on a CPU
  stream.synchronize();
  const std::vector<std::string> texts = gather_texts(world, kernels.autotuned(), stream.device());
  if (std::ranges::count(texts, texts.front()) == std::ssize(texts)) return false;
  std::string all;
  for (const std::string& text : texts) all += text;
  kernels.take_autotuned(all);
  return true;
}

StepRunner::StepRunner(const Parts& parts, Plan plan)
    : parts_(parts),
      plan_(std::move(plan)),
      batches_(parts.memory, parts.options.shape, parts.options.microbatches, plan_.limits,
               batch_share(parts.options, parts.context.mesh)),
      context_work_(parts.options),
      losses_(of_all_data_ranks(parts, parts.options.microbatches)),
      weights_(of_all_data_ranks(parts, parts.options.microbatches)),
      tokens_(of_all_data_ranks(parts, batches_.targets())) {
  std::vector<Stage*> stages;
  for (StageRunner& runner : parts_.runners) stages.push_back(&runner);
  executor_.emplace(std::move(stages), parts_.channels, parts_.context.stream,
                    make_boundary_buffers(), parts_.context.trace);
}

// Buffers for the messages between neighbouring stages: the residual stream and its gradient.
BoundaryBuffers StepRunner::make_boundary_buffers() {
  const DType dtype = parts_.options.model.dtype;
  const std::int64_t bytes = BoundaryBuffers::message_bytes(dtype, plan_.boundary_shape);
  const int buffers = plan_.boundary_buffers;
  if (buffers > 0) {
    boundary_memory_ = parts_.memory.allocate(MemoryUse::activations, DType::u8, {buffers, bytes});
    parts_.context.kernels.fill(parts_.context.stream, boundary_memory_,
                                0);  // initialised because a warm-up reads it
  }
  return {boundary_memory_.view(), dtype, plan_.boundary_shape};
}

void StepRunner::begin_step() {
  parts_.parameters.begin_step();
  parts_.extra_losses.begin_step(parts_.context, parts_.optimizer->state());
  parts_.expert_loads.begin_step(parts_.context);
}

void StepRunner::reduce_losses() {
  Context& context = parts_.context;
  Stream& stream = context.stream;
  const View losses = parts_.runner_memory.loss_sums();
  if (!parts_.has_head) context.kernels.fill(stream, losses, 0);
  context.mesh.pipeline().all_reduce(losses, ReduceOp::sum, stream)->wait(stream);
  context.mesh.tensor_column().all_reduce(losses, ReduceOp::sum, stream)->wait(stream);
  context.mesh.context().all_reduce(losses, ReduceOp::sum, stream)->wait(stream);
  gather_over_data_ranks(losses_, losses);
  gather_over_data_ranks(weights_, batches_.weights());
}

void StepRunner::gather_token_counts(LossAverage average) {
  const bool divides = batches_.divides_by_tokens(average);
  for (int target = 0; target < (divides ? batches_.targets() : 1); ++target) {
    const View tokens = tokens_of(target);
    gather_over_data_ranks(tokens, batches_.tokens(target));
    if (divides)
      parts_.context.kernels.divide_by_sum(parts_.context.stream, batches_.weights(target), tokens);
  }
}

View StepRunner::tokens_of(int target) const {
  const std::int64_t ranks = parts_.context.mesh.data().size();
  return tokens_.view().slice(0, target * ranks, ranks);
}

void StepRunner::gather_over_data_ranks(const View& all, const View& own) {
  Communicator& data = parts_.context.mesh.data();
  Stream& stream = parts_.context.stream;
  data.all_gather(all.reshape({data.size(), own.numel()}), own, stream)->wait(stream);
}

void StepRunner::run_microbatches(bool training) {
  const PipelineProgram& program = training ? plan_.training : plan_.evaluation;
  if (!training) {
    parts_.parameters.wait_for_param_gather();
    parts_.parameters.forget_buffers();
  }
  batches_.set_training(training);
  for (StageRunner& runner : parts_.runners) runner.set_microbatches(batches_.microbatches());
  bool& autotuned = training ? autotuned_for_training_ : autotuned_for_evaluation_;
  if (warms_up() && !std::exchange(autotuned, true)) {
    executor_->warm_up(program);
    share_autotuned();
    if (training) begin_step();
  }
  executor_->run(program);
  if (std::exchange(autotuned, true) || !share_autotuned()) return;
  if (training) begin_step();
  executor_->run(program);
}

bool StepRunner::warms_up() const {
  return parts_.options.device.kind == DeviceKind::cuda && parts_.options.parallel.pipeline > 1;
}

bool StepRunner::share_autotuned() {
  Context& context = parts_.context;
  return tessera::share_autotuned(context.kernels, context.stream, context.mesh.world());
}

}  // namespace tessera
