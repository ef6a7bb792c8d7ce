#include "tessera/train/run_start.h"

#include <string>

#include "tessera/base/check.h"
#include "tessera/checkpoint/saving/hf_weights.h"
#include "tessera/checkpoint/saving/tokenizer_copy.h"
#include "tessera/launch/compare.h"
#include "tessera/train/resume.h"

namespace tessera {
namespace {

std::string describe_load(const Checkpoint& checkpoint, const Options& options,
                          std::int64_t iteration) {
  const DType saved = weight_type(checkpoint);
  const std::string types = saved == options.model.dtype
                                ? ""
                                : fmt::format(" (saved in {}, going on in {})", to_string(saved),
                                              to_string(options.model.dtype));
  const std::string path = checkpoint.path().string();
  if (options.train.finetune)
    return fmt::format("took the weights of '{}'{}{}: starting at iteration 0", path, types,
                       options.train.upcycle ? ", an expert from each MLP" : "");
  return fmt::format("loaded '{}'{}: continuing at iteration {}", path, types, iteration);
}

RunStart load_checkpoint(Session& session, const Options& options, std::int64_t iteration,
                         Checkpoint& checkpoint) {
  const TrainOptions& o = options.train;
  RunStart start;
  if (!o.finetune) start.data_moved = check_same_run(checkpoint, options);
  load_weights(session, checkpoint, o.upcycle && o.load_hf.empty());
  if (!o.finetune && !o.no_load_optim) load_optimizer(session, checkpoint);
  std::error_code error;
  if (!o.finetune && !o.save.empty() && fs::equivalent(o.save, o.load, error))
    start.loaded_iteration = iteration;
  start.carried = carried_files(checkpoint);
  if (!o.finetune) check_same_tokenizer(checkpoint, start.carried, options.data.tokenizer);
  return start;
}

void check_may_be_missing(const TrainOptions& o) {
  check_input(!o.exit_on_missing_checkpoint,
              "--load {}: there is no checkpoint (--exit-on-missing-checkpoint)", o.load);
  check_input(!o.finetune || !o.load_hf.empty(), "--load {}: there is no checkpoint to --finetune",
              o.load);
}

}  // namespace

RunStart load_start(Session& session, const Options& options, const Progress& progress,
                    std::optional<Checkpoint> checkpoint, Reporter& reporter) {
  const TrainOptions& o = options.train;
  if (!o.load.empty()) {
    const std::string found = checkpoint ? std::to_string(checkpoint->iteration()) : "none";
    compare_across(session.context().mesh.world(), "start (checkpoint)",
                   "iteration: " + found + "\n", session.options().device);
    if (checkpoint) {
      RunStart start = load_checkpoint(session, options, progress.iteration, *checkpoint);
      reporter.message(describe_load(*checkpoint, options, progress.iteration));
      return start;
    }
    check_may_be_missing(o);
    reporter.message(fmt::format("no checkpoint in '{}' yet: starting from the beginning", o.load));
  }
  RunStart start;
  if (o.load_hf.empty()) return start;
  load_hf_weights(session, HfFolder(o.load_hf), o.upcycle);
  start.carried = carried_files(o.load_hf);
  return start;
}

void check_same_start(Session& session, const Options& options, const Progress& progress,
                      const TrainingData& data) {
  Context& context = session.context();
  if (context.mesh.world().size() == 1) return;
  // Each rank has read its own files, which may have taken long.
  context.mesh.world().barrier_without_timeout();
  std::string text =
      fmt::format("iteration: {}\nconsumed samples: {}\noptimizer steps: {}\n", progress.iteration,
                  progress.consumed_samples, session.optimizer().step_state(context).step);
  std::string tokens;  // of who reads any
  if (progress.iteration < options.train.train_iters) {
    const TrainingData::FirstBatch first = data.first_batch(progress);
    text += fmt::format("first samples: {}\n", first.samples);
    if (first.tokens) tokens = fmt::format("first batch: {}\n", *first.tokens);
  }
  const Device device = session.options().device;
  compare_across(context.mesh.world(), "start (checkpoint and data)", text, device);
  compare_across(context.mesh.world(), "data", tokens, device);
}

}  // namespace tessera
