#include <fmt/core.h>

#include "apps/commands.h"
#include "tessera/config/print.h"
#include "tessera/config/rules/validate.h"
#include "tessera/data/preprocess/train_tokenizer.h"

namespace tessera {

void train_tokenizer_command(const ParsedCommand& parsed) {
  validate(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const TrainedTokenizer made = train_tokenizer(parsed.train_tokenizer);
  fmt::print("'{}': {} tokens from {} bytes of text ({} different pre-tokens)\n",
             parsed.train_tokenizer.output, made.vocab_size, made.bytes, made.pieces);
}

}  // namespace tessera
