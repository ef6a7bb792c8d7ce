#include <fmt/core.h>

#include "apps/commands.h"
#include "tessera/config/print.h"
#include "tessera/config/rules/validate.h"
#include "tessera/data/indexed/merge_data.h"

namespace tessera {

void merge_data_command(const ParsedCommand& parsed) {
  validate(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const PreprocessOptions& options = parsed.preprocess;
  const DataCounts counts = merge_data(options.inputs, options.output_prefix, options.overwrite);
  fmt::print("'{}' has {} documents, {} sequences, {} tokens\n", options.output_prefix,
             counts.documents, counts.sequences, counts.tokens);
}

void split_data_command(const ParsedCommand& parsed) {
  validate(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const PreprocessOptions& options = parsed.preprocess;
  const std::vector<std::string> parts =
      split_data(options.inputs.front(), parsed.split_data.partitions, options.output_prefix,
                 options.overwrite);
  fmt::print("{} pairs, '{}' to '{}'\n", parts.size(), parts.front(), parts.back());
}

}  // namespace tessera
