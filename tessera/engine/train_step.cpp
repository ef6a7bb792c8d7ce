#include "tessera/engine/train_step.h"

#include <numeric>
#include <utility>

namespace tessera {
namespace {

void load_batches(Session& session, const NextBatch& next_batch, LossAverage average) {
  const TraceRange range(session.context().trace, "batch");
  DeviceBatches& batches = session.step_runner().batches();
  for (int i = 0; i < session.options().microbatches; ++i) {
    const HostBatch& batch = next_batch();
    batches.set(i, batch);
    session.step_runner().context_work().add(batch);
  }
  batches.send(session.context().stream, average);
}

void forward_backward(Session& session, LossAverage average) {
  Context& context = session.context();
  const DeviceBatches& batches = session.step_runner().batches();
  session.step_runner().gather_token_counts(average);
  context.kernels.start_step(context.stream, batches.grad_scales(), batches.all_weights(),
                             session.optimizer().state());
  session.step_runner().begin_step();
  session.step_runner().run_microbatches(true);
  const TraceRange range(context.trace, "gradient reduction and norm");
  session.step_runner().reduce_losses();
  session.extra_losses().finish_step(context);
  session.expert_loads().finish_step(context, session.extra_losses().statistics());
  session.parameters().finish_gradients();
  session.optimizer().measure_gradients(context);
}

void update_weights(Session& session) {
  const TraceRange range(session.context().trace, "optimizer");
  session.optimizer().update(session.context(), session.step_runner().losses(),
                             session.step_runner().weights(), session.extra_losses().values());
  session.expert_loads().update(session.context(), session.optimizer().state());
  session.parameters().parameters_updated();
}

std::vector<double> on_host(Session& session, const ConstView& values) {
  std::vector<double> copy(static_cast<std::size_t>(values.numel()));
  Stream& stream = session.context().stream;
  stream.api().copy_bytes(stream.native(), copy.data(), values.raw(), values.bytes());
  stream.synchronize();
  return copy;
}

// The weighted sum of the microbatches' losses. Waits for the stream.
double read_loss(Session& session) {
  const std::vector<double> sums = on_host(session, session.step_runner().losses());
  const std::vector<double> weights = on_host(session, session.step_runner().weights());
  return std::inner_product(sums.begin(), sums.end(), weights.begin(), 0.0);
}

double read_token_count(Session& session) {
  const std::vector<double> tokens = on_host(session, session.step_runner().tokens());
  return std::accumulate(tokens.begin(), tokens.end(), 0.0);
}

// With the all-to-all token dispatcher without padding, or with one product per expert, the host
// reads token counts inside a layer.
bool waits_in_layers(const SessionOptions& options) {
  const ParallelOptions& p = options.parallel;
  if (options.model.num_experts == 0) return false;
  return !p.grouped_gemm ||
         (p.expert_ranks() > 1 && p.token_dispatcher == TokenDispatcher::alltoall &&
          !options.model.moe_pad_to_capacity);
}

// CUDA graphs need a GPU, communicators that can be captured, and layers in which the host never
// waits.
bool can_replay(Session& session) {
  const SessionOptions& options = session.options();
  return options.device.kind == DeviceKind::cuda && session.context().mesh.world().capturable() &&
         !waits_in_layers(options);
}

}  // namespace

Steps::Steps(Session& session, LossAverage average)
    : session_(session),
      average_(average),
      submitted_(session.optimizer().step_state(session.context()).iteration),
      collected_(submitted_),
      replays_(can_replay(session)) {}

void Steps::submit(const NextBatch& next_batch, bool eager) {
  // The first steps run the autotuner, which cannot run during graph capture.
  constexpr int kBeforeGraph = 2;
  const TraceRange range(session_.context().trace, "step", submitted_ + 1);
  // The kernels that a graph replays belong to no trace range. A graph that was captured before
  // CUPTI is attached is not launched afterwards either: some drivers fail on that.
  const bool without_graph = eager || session_.context().trace->recording();
  const int microbatches = session_.options().microbatches;
  if (without_graph || std::exchange(graph_microbatches_, microbatches) != microbatches)
    graph_.reset();
  if (!replays_ || eager_steps_ < kBeforeGraph || without_graph) {
    ++eager_steps_;
    submit_gradients(next_batch);
    submit_update();
    return;
  }
  load_batches(session_, next_batch, average_);
  Stream& stream = session_.context().stream;
  if (!graph_)
    graph_.emplace(stream, [this] {
      forward_backward(session_, average_);
      update_weights(session_);
    });
  session_.context().mesh.world().launch_with_timeout(stream, [&] { graph_->launch(stream); });
  session_.parameters().step_replayed();
  submitted_ += 1;
}

void Steps::submit_gradients(const NextBatch& next_batch) {
  load_batches(session_, next_batch, average_);
  forward_backward(session_, average_);
}

void Steps::submit_update() {
  update_weights(session_);
  submitted_ += 1;
}

std::vector<StepRecord> Steps::collect() {
  std::vector<StepRecord> records =
      session_.optimizer().records(session_.context(), collected_ + 1, submitted_);
  collected_ = submitted_;
  return records;
}

StepResult compute_gradients(Session& session, const NextBatch& next_batch, LossAverage average) {
  load_batches(session, next_batch, average);
  forward_backward(session, average);
  const double loss = read_loss(session);
  return {loss, session.optimizer().grad_norm(session.context()), read_token_count(session)};
}

StepResult train_step(Session& session, const NextBatch& next_batch, LossAverage average,
                      double learning_rate) {
  const StepResult result = compute_gradients(session, next_batch, average);
  apply_gradients(session, learning_rate);
  return result;
}

void apply_gradients(Session& session, double learning_rate) {
  session.optimizer().set_rates(session.context(), std::span(&learning_rate, 1));
  update_weights(session);
}

StepResult evaluate_step(Session& session, const NextBatch& next_batch, LossAverage average) {
  load_batches(session, next_batch, average);
  session.step_runner().gather_token_counts(average);
  session.step_runner().run_microbatches(false);
  session.step_runner().reduce_losses();
  const double loss = read_loss(session);
  return {loss, 0, read_token_count(session)};
}

}  // namespace tessera
