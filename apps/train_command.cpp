#include <fmt/core.h>

#include "apps/commands.h"
#include "tessera/config/megatron/megatron_flags.h"
#include "tessera/config/print.h"
#include "tessera/run/training_run.h"

namespace tessera {

int train_command(ParsedCommand& parsed, const std::vector<std::string>& arguments) {
  if (parsed.megatron_flags) {
    fmt::print("{}", config::megatron_page());
    return 0;
  }
  const TrainingRun run(parsed);
  if (!parsed.print_config) return run.start(arguments);
  log_notes(parsed.notes);
  fmt::print("{}", print_config(parsed));
  return 0;
}

}  // namespace tessera
