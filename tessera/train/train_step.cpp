#include "tessera/train/train_step.h"

#include <algorithm>

namespace tessera {
namespace {

// What one token of microbatch i weighs in the loss. A microbatch whose every label is masked
// weighs nothing.
double token_weight(const DeviceBatches& batches, int microbatches, int i, LossAverage average) {
  double counted = batches.tokens(i) * microbatches;
  if (average == LossAverage::per_token) {
    counted = 0;
    for (int m = 0; m < microbatches; ++m) counted += batches.tokens(m);
  }
  return 1.0 / std::max(counted, 1.0);
}

StepResult run(Session& session, const std::function<const HostBatch&()>& next_batch,
               LossAverage average, bool training) {
  DeviceBatches& batches = session.batches();
  Stream& stream = session.context().stream;
  const int count = session.options().microbatches;
  for (int i = 0; i < count; ++i) batches.set(stream, i, next_batch());
  for (int i = 0; i < count; ++i)
    batches.set_grad_scale(stream, i, token_weight(batches, count, i, average));
  session.run_microbatches(training);

  StepResult result;
  const View sums = session.runner().loss_sums();
  for (int i = 0; i < count; ++i) {
    double sum = 0;
    stream.api().copy_bytes(stream.native(), &sum, sums.slice(0, i, 1).raw(), sizeof(sum));
    stream.synchronize();
    result.loss += sum * token_weight(batches, count, i, average);
    result.tokens += batches.tokens(i);
  }
  return result;
}

}  // namespace

StepResult compute_gradients(Session& session, const std::function<const HostBatch&()>& next_batch,
                             LossAverage average) {
  session.parameters().begin_step();
  StepResult result = run(session, next_batch, average, true);
  session.parameters().finish_gradients(session.context());
  session.optimizer().measure_gradients(session.context());
  result.grad_norm = session.optimizer().grad_norm(session.context());
  return result;
}

StepResult train_step(Session& session, const std::function<const HostBatch&()>& next_batch,
                      LossAverage average, double learning_rate) {
  const StepResult result = compute_gradients(session, next_batch, average);
  session.optimizer().update(session.context(), learning_rate);
  return result;
}

StepResult evaluate_step(Session& session, const std::function<const HostBatch&()>& next_batch,
                         LossAverage average) {
  return run(session, next_batch, average, false);
}

}  // namespace tessera
