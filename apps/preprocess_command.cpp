#include <fmt/core.h>

#include "apps/commands.h"
#include "tessera/config/print.h"
#include "tessera/config/resolve.h"
#include "tessera/config/validate.h"
#include "tessera/data/preprocess.h"

namespace tessera {

void preprocess_command(const ParsedCommand& parsed) {
  validate(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  PreprocessOptions options = parsed.preprocess;
  options.tokenizer = parsed.options.data.tokenizer;
  options.vocab_size = parsed.options.data.vocab_size;
  const PreprocessStats stats = preprocess(options);
  fmt::print("{} documents, {} tokens, {} bytes read\n", stats.documents, stats.tokens,
             stats.bytes);
}

}  // namespace tessera
