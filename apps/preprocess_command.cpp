#include <fmt/core.h>

#include "apps/commands.h"
#include "tessera/config/print.h"
#include "tessera/config/resolve.h"
#include "tessera/config/rules/validate.h"
#include "tessera/data/preprocess/preprocess.h"

namespace tessera {

void preprocess_command(const ParsedCommand& parsed) {
  validate(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const PreprocessOptions& options = parsed.preprocess;
  const PreprocessStats stats = preprocess(options);
  const std::string skipped =
      options.on_error == OnError::skip ? fmt::format(", {} bad ones skipped", stats.skipped) : "";
  fmt::print("{} documents, {} tokens, {} bytes read{}\n", stats.documents, stats.tokens,
             stats.bytes, skipped);
}

}  // namespace tessera
