#include <fmt/core.h>

#include "apps/commands.h"
#include "tessera/config/print.h"
#include "tessera/run/training_run.h"

namespace tessera {

int train_command(ParsedCommand& parsed, const std::vector<std::string>& arguments) {
  const TrainingRun run(parsed);
  if (!parsed.print_config) return run.start(arguments);
  fmt::print("{}", print_config(parsed));
  return 0;
}

}  // namespace tessera
