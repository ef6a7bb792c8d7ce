#include <fmt/core.h>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "tessera/config/print.h"
#include "tessera/train/inspect.h"
#include "tessera/train/trainer.h"

namespace tessera {

void inspect_command(ParsedCommand& parsed) {
  const ModelSource source(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const SessionOptions options = session_options(parsed.options, true);
  fmt::print("{}", inspect_text(options, only_rank(parsed.options.train).threads));
}

}  // namespace tessera
