#include "tessera/infer/evaluate.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/base/log.h"
#include "tessera/data/build_datasets.h"
#include "tessera/engine/host_block.h"
#include "tessera/engine/train_step.h"
#include "tessera/launch/in_turn.h"

namespace tessera {
namespace {

// Sequences [first, last) as one batch; shorter ones are padded behind their end, where causal
// attention hides it.
HostBatch padded_batch(const std::vector<std::vector<std::int32_t>>& sequences, std::size_t first,
                       const BatchShape& shape) {
  const auto size = static_cast<std::size_t>(shape.rows());
  HostBatch batch{shape.batch,
                  shape.seq,
                  std::vector<std::int32_t>(size),
                  std::vector<std::int32_t>(size),
                  std::vector<float>(size),
                  std::vector<std::int32_t>(size),
                  std::vector<std::int64_t>(static_cast<std::size_t>(shape.batch))};
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t s = 0; s < shape.seq; ++s) {
      const auto at = static_cast<std::size_t>(b * shape.seq + s);
      batch.positions[at] = static_cast<std::int32_t>(s);
      const std::size_t number = first + static_cast<std::size_t>(b);
      if (number >= sequences.size()) continue;
      const std::vector<std::int32_t>& tokens = sequences[number];
      const auto next = static_cast<std::size_t>(s) + 1;
      if (next >= tokens.size()) continue;
      batch.tokens[at] = tokens[next - 1];
      batch.labels[at] = tokens[next];
      batch.loss_mask[at] = 1.0f;
    }
  return batch;
}

// acc [N] in the activation buffer of the session's last stage, as doubles on the host of the first
// rank.
std::vector<double> token_losses(Session& session) {
  Context& context = session.context();
  const DType dtype = accumulator_type(session.options().model.dtype);
  const Tensor all =
      session.memory().allocate(MemoryUse::data, dtype, {session.options().shape.rows()});
  const View losses = all.view();
  context.kernels.fill(context.stream, losses, 0);
  if (StageRunner* runner = session.head_runner())
    context.kernels.copy(context.stream, losses, runner->token_losses(0).reshape(losses.shape()));
  context.mesh.pipeline().all_reduce(losses, ReduceOp::sum, context.stream)->wait(context.stream);
  const HostBlock host = downloaded(context, losses);
  std::vector<double> values(static_cast<std::size_t>(losses.numel()));
  dispatch_float(losses.dtype(), "token_losses", [&]<class T>(TypeTag<T>) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(static_cast<Accumulator<T>>(host.view().data<T>()[i]));
  });
  return values;
}

std::string result_line(const std::vector<std::int32_t>& tokens, const std::vector<double>& losses,
                        std::int64_t batch, std::int64_t b) {
  std::vector<double> logprobs;
  double sum = 0;
  for (std::size_t s = 0; s + 1 < tokens.size(); ++s) {
    const double loss = losses[s * static_cast<std::size_t>(batch) + static_cast<std::size_t>(b)];
    check(std::isfinite(loss),
          "the model gives token {} the loss {}: its weights are damaged, or their type is too "
          "narrow",
          s + 1, loss);
    logprobs.push_back(-loss);
    sum += loss;
  }
  return Json{{"tokens", tokens.size()},
              {"loss", sum / static_cast<double>(logprobs.size())},
              {"token_logprobs", logprobs}}
             .dump() +
         "\n";
}

}  // namespace

double EvaluationResult::perplexity() const { return std::exp(loss); }

EvaluationResult evaluate_dataset(Session& session, const Rank& rank, const Options& options,
                                  std::int64_t iterations) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.data.tokenizer);
  const std::int64_t batch = options.train.global_batch_size;
  // The validation part of --split, which is all of the data unless given.
  const Split split = Split::valid;
  DataOptions data = options.data;
  data.multiple_validation_sets = false;  // one result for all
  const auto dataset = built_in_turn(rank, !data.data_cache_path.empty(), [&] {
    const DatasetBuilder builder(data, *tokenizer);
    if (rank.rank == 0)
      for (const std::string& warning : builder.warnings()) log_warning("{}", warning);
    return builder.build(split, iterations * batch).front().dataset;
  });
  check_input(dataset->size() >= iterations * batch,
              "the data holds {} samples, but {} batches of {} are asked for: lower --eval-iters",
              dataset->size(), iterations, batch);
  Loader loader(dataset,
                {.micro_batch_size = options.train.micro_batch_size,
                 .workers = options.data.num_workers,
                 .reads = needs_tokens(session, options.data),
                 .documents = options.data.keeps_documents_apart()},
                0);
  EvaluationResult result;
  for (std::int64_t i = 0; i < iterations; ++i) {
    const StepResult step = evaluate_step(
        session, [&]() -> const HostBatch& { return loader.next(); }, LossAverage::per_token);
    result.loss += step.loss * step.tokens;
    result.tokens += step.tokens;
  }
  result.loss /= std::max(result.tokens, 1.0);
  check(std::isfinite(result.loss),
        "the loss over {} tokens is {}: the weights are damaged, or {} "
        "is too narrow for them",
        result.tokens, result.loss, to_string(options.model.dtype));
  return result;
}

std::vector<std::vector<std::int32_t>> read_token_file(const fs::path& path, std::int64_t vocab) {
  std::ifstream file(path);
  check_input(file.good() && fs::is_regular_file(path), "cannot open '{}'", path.string());
  std::vector<std::vector<std::int32_t>> sequences;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string what = fmt::format("'{}', line {}", path.string(), number);
    const Json json = parse_json(line, what);
    check_input(json.is_object() && json.contains("tokens") && json["tokens"].is_array() &&
                    json["tokens"].size() >= 2,
                "{}: expected {{\"tokens\": [...]}} with at least two tokens", what);
    std::vector<std::int32_t> tokens;
    for (const Json& token : json["tokens"]) {
      check_input(token.is_number_integer() && token.get<double>() >= 0 &&
                      token.get<double>() < static_cast<double>(vocab),
                  "{}: token {} is not in the vocabulary of {}", what, token.dump(), vocab);
      tokens.push_back(token.get<std::int32_t>());
    }
    sequences.push_back(std::move(tokens));
  }
  check_input(!sequences.empty(), "'{}' holds no sequences", path.string());
  return sequences;
}

std::string evaluate_sequences(Session& session,
                               const std::vector<std::vector<std::int32_t>>& sequences) {
  const BatchShape shape = session.options().shape;
  std::string lines;
  for (std::size_t first = 0; first < sequences.size();
       first += static_cast<std::size_t>(shape.batch)) {
    const HostBatch batch = padded_batch(sequences, first, shape);
    evaluate_step(
        session, [&]() -> const HostBatch& { return batch; }, LossAverage::per_token);
    const std::vector<double> losses = token_losses(session);
    for (std::int64_t b = 0;
         b < shape.batch && first + static_cast<std::size_t>(b) < sequences.size(); ++b)
      lines += result_line(sequences[first + static_cast<std::size_t>(b)], losses, shape.batch, b);
  }
  return lines;
}

}  // namespace tessera
