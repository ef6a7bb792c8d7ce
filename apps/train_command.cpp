#include <fmt/core.h>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "tessera/base/log.h"
#include "tessera/config/print.h"
#include "tessera/train/trainer.h"

namespace tessera {

void train_command(ParsedCommand& parsed) {
  const ModelSource source(parsed);
  const Options& options = parsed.options;
  const std::string config = print_config(options);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const Rank rank = only_rank(options.train);
  log_info("tessera {}: {} parameters in {}, {} thread(s), global batch {} x {} tokens",
           TESSERA_VERSION, parameter_count(options.model), name_of(options.model.dtype),
           rank.threads, options.train.global_batch_size, options.data.seq_length);
  Trainer trainer(options, config, rank);
  trainer.run();
}

}  // namespace tessera
