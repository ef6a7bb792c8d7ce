#include "tessera/train/step_reports.h"

#include <algorithm>
#include <utility>

#include "tessera/spec/flops.h"

namespace tessera {

namespace {

// The number of layers that add to each loss; those of multi-token prediction are of no layer.
std::vector<double> layers_of(const std::vector<std::string>& losses, const ModelSpec& model) {
  std::vector<double> counts;
  for (const std::string& loss : losses) {
    double layers = 0;
    for (const LayerSpec* layer : all_layers(model))
      layers += static_cast<double>(std::ranges::count(extra_loss_names(*layer), loss));
    counts.push_back(std::max(layers, 1.0));
  }
  return counts;
}

}  // namespace

StepReports::StepReports(Session& session, const Options& options, Reporter& reporter,
                         std::int64_t iteration)
    : options_(options),
      session_(session),
      reporter_(reporter),
      data_waits_(session, iteration),
      extra_losses_(session.extra_losses().names()),
      loss_layers_(layers_of(extra_losses_, model_spec(options.model))),
      statistics_(session.extra_losses().statistics() ? ExpertLoads::statistics()
                                                      : std::vector<std::string>()),
      flops_per_token_(flops_per_token(model_spec(options.model), options.data.seq_length) /
                       session.context().mesh.world().size()) {
  if (options.train.log_experts_by_layer) layer_report_.emplace(session);
}

void StepReports::restart_clock() {
  reported_ = Clock::now();
  session_.step_runner().context_work().take_imbalance();
}

bool StepReports::live_line_due() const {
  constexpr std::chrono::milliseconds kPause{500};
  return reporter_.live() && Clock::now() - reported_ > kPause;
}

void StepReports::begin(std::int64_t count, std::int64_t iteration, double waited) {
  const TrainOptions& o = options_.train;
  const auto steps = static_cast<double>(count);
  seconds_ = std::chrono::duration<double>(Clock::now() - reported_).count() / steps;
  context_imbalance_ = session_.step_runner().context_work().take_imbalance();
  wait_ = (waited - std::exchange(waited_, waited)) / steps;
  logs_ = (o.log_interval > 0 && iteration % o.log_interval == 0) || iteration >= o.train_iters;
  last_ = iteration;
  if (logs_ && layer_report_) layers_ = layer_report_->read();
  if (logs_ && o.log_params_norm)
    params_norm_ = session_.optimizer().parameter_norm(session_.context());
  if (logs_ && o.log_num_zeros_in_grad)
    zeros_ = session_.optimizer().zero_gradients(session_.context());
  longest_ = logs_ ? data_waits_.since_last(waited, iteration) : DataWaits::Longest{};
}

void StepReports::step(const StepRecord& record, std::int64_t iteration, std::int64_t batch,
                       std::int64_t consumed_samples) {
  const TrainOptions& o = options_.train;
  const auto tokens = static_cast<double>(batch * options_.data.seq_length);
  StepMetrics step{iteration, o.train_iters, batch, {}};
  Metrics& metrics = step.metrics;
  metrics.add("consumed_samples", "samples", consumed_samples);
  metrics.add("lm_loss", kLossUnit, record.loss);
  for (std::size_t i = 0; i < extra_losses_.size(); ++i)
    metrics.add(extra_losses_[i], kLossUnit, record.extra_losses[i] / loss_layers_[i]);
  for (std::size_t i = 0; i < statistics_.size(); ++i)
    metrics.add(statistics_[i], "", record.extra_losses[extra_losses_.size() + i]);
  metrics.add("learning_rate", "", record.learning_rate);
  metrics.add("grad_norm", "", record.grad_norm);
  const bool logged = logs_ && iteration == last_;
  if (logged && o.log_num_zeros_in_grad) metrics.add("num_zeros_in_grad", "", zeros_);
  if (logged && o.log_params_norm) metrics.add("params_norm", "", params_norm_);
  metrics.add("loss_scale", "", record.loss_scale);
  metrics.add("skipped", "", record.skipped != 0);
  metrics.add("seconds", "s", seconds_);
  metrics.add("data_wait", "s", wait_);
  metrics.add("tokens_per_second", "tokens/s", tokens / seconds_);
  metrics.add("tflops", "TFLOP/s", tokens / seconds_ * flops_per_token_ / 1e12);
  if (session_.step_runner().context_work().counts())
    metrics.add("context_imbalance", "", context_imbalance_);
  if (logs_) metrics.add("longest_data_wait", "s", longest_.seconds);
  if (logs_ && iteration == last_) step.layers = layers_;
  reporter_.step(step);
}

void StepReports::end() {
  if (is_held_up(longest_.seconds, seconds_))
    reporter_.message(
        fmt::format("rank {} waited {:.1f} ms of an iteration for data, longer than the others: "
                    "its disk may be slow, or --num-workers {} too few",
                    longest_.rank, longest_.seconds * 1e3, options_.data.num_workers));
  restart_clock();
}

}  // namespace tessera
