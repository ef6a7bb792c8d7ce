#include <fmt/core.h>

#include <algorithm>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/config/print.h"
#include "tessera/config/validate.h"
#include "tessera/train/evaluate.h"

namespace tessera {
namespace {

void write_output(const std::string& path, const std::string& text) {
  if (path.empty()) return fmt::print("{}", text);
  make_folders(fs::absolute(path).parent_path());
  write_file_atomically(path, text);
}

// Found now, and not after the work.
void check_output(const EvaluateOptions& options) {
  if (options.output.empty()) return;
  check_folder_can_be(fs::absolute(options.output).parent_path());
  std::error_code error;
  check_input(
      !fs::equivalent(options.output, options.tokens, error),
      "--output {}: this is the file of --tokens, which it would replace: give another name",
      options.output);
}

SessionOptions inference(const Options& options, const BatchShape& shape) {
  SessionOptions session;
  session.model = options.model;
  session.shape = shape;
  session.training = false;
  session.device = device_of(options.train);
  session.memory_budget_gib = options.train.gpu_memory_budget_gib;
  session.cuda = cuda_of(options.train);
  return session;
}

void evaluate_tokens(const ParsedCommand& parsed, const ModelSource& source) {
  const Options& options = parsed.options;
  const auto sequences = read_token_file(parsed.evaluate.tokens, options.model.vocab_size);
  std::size_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, sequence.size());
  const auto seq = static_cast<std::int64_t>(longest) - 1;
  check_input(seq <= options.model.max_position_embeddings,
              "'{}' holds a sequence of {} tokens, but the model has {} positions",
              parsed.evaluate.tokens, longest, options.model.max_position_embeddings);
  Session session(inference(options, {seq, options.train.micro_batch_size}),
                  only_rank(options.train));
  source.load(session);
  write_output(parsed.evaluate.output, evaluate_sequences(session, sequences));
}

}  // namespace

void evaluate_command(ParsedCommand& parsed) {
  const ModelSource source(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  check_output(parsed.evaluate);
  if (!parsed.evaluate.tokens.empty()) return evaluate_tokens(parsed, source);
  const Options& options = parsed.options;
  check_input(
      options.data.seq_length > 0,
      "--seq-length is required: a Hugging Face folder does not say how long the samples are");
  validate_fit(options);
  Session session(inference(options, {options.data.seq_length, options.train.micro_batch_size}),
                  only_rank(options.train));
  source.load(session);
  const EvaluationResult result = evaluate_dataset(session, options, options.train.eval_iters);
  const Json line{{"loss", result.loss},
                  {"perplexity", result.perplexity()},
                  {"tokens", static_cast<std::int64_t>(result.tokens)}};
  write_output(parsed.evaluate.output, line.dump() + "\n");
}

}  // namespace tessera
