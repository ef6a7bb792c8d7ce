#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "apps/commands.h"
#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/config/print.h"
#include "tessera/config/rules/validate.h"
#include "tessera/data/files/output_check.h"
#include "tessera/engine/session_options.h"
#include "tessera/infer/evaluate.h"
#include "tessera/run/model_source.h"
#include "tessera/run/rank_start.h"

namespace tessera {
namespace {

void write_output(const std::string& path, const std::string& text) {
  if (path.empty()) return fmt::print("{}", text);
  make_folders(fs::absolute(path).parent_path());
  write_file_atomically(path, text);
}

// Found now, and not after the work.
void check_output(const EvaluateOptions& options, bool overwrite) {
  if (options.output.empty()) return;
  check_folder_can_be(fs::absolute(options.output).parent_path());
  check_is_no_input(options.output, options.tokens, "--output");
  check_may_write(options.output, overwrite, "--output");
}

// What a rank finds; the first one's is written.
using Evaluation = std::function<std::string(Rank& rank)>;

Evaluation token_evaluation(const ParsedCommand& parsed, const ModelSource& source) {
  const Options& options = parsed.options;
  auto sequences = read_token_file(parsed.evaluate.tokens, options.model.vocab_size);
  std::size_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, sequence.size());
  const auto seq = static_cast<std::int64_t>(longest) - 1;
  check_input(seq <= options.model.max_position_embeddings,
              "'{}' holds a sequence of {} tokens, but the model has {} positions",
              parsed.evaluate.tokens, longest, options.model.max_position_embeddings);
  return [&, seq, sequences = std::move(sequences)](Rank& rank) {
    Session session(inference_options(options, {seq, options.train.micro_batch_size}, rank), rank);
    source.load(session);
    return evaluate_sequences(session, sequences);
  };
}

Evaluation dataset_evaluation(const ParsedCommand& parsed, const ModelSource& source) {
  const Options& options = parsed.options;
  check_input(
      options.data.seq_length > 0,
      "--seq-length is required: a Hugging Face folder does not say how long the samples are");
  validate_fit(options);
  return [&](Rank& rank) {
    const BatchShape shape{options.data.seq_length, options.train.micro_batch_size};
    Session session(inference_options(options, shape, rank), rank);
    source.load(session);
    const EvaluationResult result =
        evaluate_dataset(session, rank, options, options.train.eval_iters);
    return Json{{"loss", result.loss},
                {"perplexity", result.perplexity()},
                {"tokens", static_cast<std::int64_t>(result.tokens)}}
               .dump() +
           "\n";
  };
}

}  // namespace

int evaluate_command(ParsedCommand& parsed, const std::vector<std::string>& arguments) {
  const ModelSource source(
      parsed, apply_launcher_environment(parsed, recognise_environment(process_variable)));
  if (parsed.print_config) {
    fmt::print("{}", print_config(parsed));
    return 0;
  }
  check_output(parsed.evaluate, parsed.preprocess.overwrite);
  const Evaluation evaluate = parsed.evaluate.tokens.empty() ? dataset_evaluation(parsed, source)
                                                             : token_evaluation(parsed, source);
  return run_on_ranks(parsed.options, print_config(parsed), arguments, [&](Rank& rank) {
    const std::string text = evaluate(rank);
    if (rank.rank == 0) write_output(parsed.evaluate.output, text);
  });
}

}  // namespace tessera
