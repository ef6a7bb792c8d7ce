#include <fmt/core.h>

#include <algorithm>

#include "apps/commands.h"
#include "tessera/checkpoint/hf/hf_export.h"
#include "tessera/checkpoint/hf/hf_import.h"
#include "tessera/checkpoint/hf/weight_reader.h"
#include "tessera/checkpoint/saving/tokenizer_copy.h"
#include "tessera/checkpoint/trtllm/trtllm_export.h"
#include "tessera/config/print.h"
#include "tessera/config/resolve.h"
#include "tessera/config/rules/validate.h"
#include "tessera/tokenizer/tokenizer.h"
#include "tessera/train/resume.h"

namespace tessera {
namespace {

// Nothing unless a flag says a type: then files keep theirs.
std::optional<DType> asked_type(const ParsedCommand& parsed) {
  for (const char* flag : {"params-dtype", "bf16", "fp16"})
    if (parsed.was_given(flag)) return parsed.options.model.dtype;
  return std::nullopt;
}

// The run that a checkpoint of somebody else's model describes. Without a tokenizer, its texts are
// numbers of tokens.
Options imported_options(const HfFolder& folder, DType dtype) {
  Options options;
  options.model = folder.model().options;
  options.model.dtype = dtype;
  if (const auto own = tokenizer_of(folder)) {
    options.data.tokenizer = *own;
  } else {
    options.data.tokenizer.kind = TokenizerKind::null;
    options.data.tokenizer.vocab_size = std::max<std::int64_t>(1, options.model.vocab_size - 1);
  }
  validate_model(options.model);
  return options;
}

void import_model(const ParsedCommand& parsed) {
  const HfFolder folder(parsed.convert.from_hf);
  const DType dtype = asked_type(parsed).value_or(stored_type(folder));
  const std::string config = print_config(imported_options(folder, dtype));
  const fs::path made = import_hf(folder, {parsed.options.train.save, dtype, config});
  fmt::print("'{}' is a checkpoint of '{}' ({}) in {}\n", made.string(), parsed.convert.from_hf,
             folder.model().family, to_string(dtype));
}

void export_model(const ParsedCommand& parsed) {
  const TrainOptions& train = parsed.options.train;
  Checkpoint checkpoint = Checkpoint::open(train.load, wanted_iteration(train));
  Options saved =
      options_from_yaml(checkpoint.config(), (checkpoint.path() / kConfigFile).string());
  resolve_model(saved.model);
  const ConvertOptions& convert = parsed.convert;
  if (!convert.to_trtllm.empty()) {
    export_trtllm(checkpoint, saved.model, convert.to_trtllm, convert.ranks, asked_type(parsed));
    return fmt::print("'{}' is '{}' for TensorRT-LLM on {} rank(s)\n", convert.to_trtllm,
                      checkpoint.path().string(), convert.ranks);
  }
  HfExport options;
  options.dtype = asked_type(parsed);
  options.max_shard_bytes = static_cast<std::uint64_t>(convert.max_shard_bytes);
  use_carried_tokenizer(checkpoint, saved.data.tokenizer);
  if (const auto tokenizer = make_tokenizer(saved.data.tokenizer); tokenizer->has_eod())
    options.end_of_document = tokenizer->eod();
  const std::string family = export_hf(checkpoint, saved.model, convert.to_hf, options);
  fmt::print("'{}' is '{}' as a Hugging Face model ({})\n", convert.to_hf,
             checkpoint.path().string(), family);
}

}  // namespace

void convert_command(const ParsedCommand& parsed) {
  validate(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  parsed.convert.from_hf.empty() ? export_model(parsed) : import_model(parsed);
}

}  // namespace tessera
