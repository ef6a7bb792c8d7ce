#include "tessera/train/run_checkpoints.h"

#include <utility>

#include "tessera/base/check.h"
#include "tessera/checkpoint/saving/tokenizer_copy.h"

namespace tessera {
namespace {

SaveOptions save_options(const TrainOptions& o) {
  SaveOptions save;
  save.folder = o.save;
  save.with_optimizer = !o.no_save_optim;
  save.background = o.async_save;
  save.staging_bytes = o.async_staging_mib << 20;
  save.retention = {o.keep_last, o.keep_every};
  return save;
}

}  // namespace

RunCheckpoints::RunCheckpoints(Session& session, const Options& options, std::string config,
                               RunStart start, Reporter& reporter)
    : session_(session),
      options_(options),
      config_(std::move(config)),
      start_(std::move(start)),
      reporter_(reporter),
      saver_(session, save_options(options.train),
             [&reporter](const std::string& text) { reporter.message(text); }) {
  carry_tokenizer(options.data.tokenizer, start_.carried);
}

void RunCheckpoints::save(Progress& progress, const TrainingData& data, ConsistencyCheck& ranks) {
  const TraceRange range(session_.context().trace, "checkpoint");
  progress.order_seed = options_.data.seed;
  progress.order_samples = data.datasets().order_samples();
  Progress saved = progress;
  if (saved.order_digest) *saved.order_digest += ranks.sum_over_data_ranks(data.digest());
  SaveContents contents{progress.iteration, state_of(session_, saved), start_.carried};
  contents.files.emplace_back(kConfigFile, config_);
  saver_.request(contents);
  if (saver_.pending())
    reporter_.message(fmt::format("requested checkpoint of iteration {}", progress.iteration));
}

// A save that has failed is tried once more.
void RunCheckpoints::save_last(Progress& progress, const TrainingData& data,
                               ConsistencyCheck& ranks) {
  saver_.finish();
  if (start_.loaded_iteration == progress.iteration) return;
  for (int tries = 0; tries < 2 && saver_.committed() != progress.iteration; ++tries) {
    save(progress, data, ranks);
    saver_.finish();
  }
  check(saver_.committed() == progress.iteration,
        "the run ends without a checkpoint of iteration {} (the error is above)",
        progress.iteration);
}

}  // namespace tessera
