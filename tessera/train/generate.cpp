#include "tessera/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Tokens with their probabilities, most likely first (ties: smaller token first), cut by top-k and
// top-p.
struct Candidates {
  std::vector<std::int32_t> tokens;
  std::vector<double> probabilities;
};

Candidates candidates_of(std::span<const float> logits, const GenerateOptions& options) {
  Candidates c;
  c.tokens.resize(logits.size());
  std::iota(c.tokens.begin(), c.tokens.end(), 0);
  const auto logit = [&](std::int32_t t) { return logits[static_cast<std::size_t>(t)]; };
  std::stable_sort(c.tokens.begin(), c.tokens.end(),
                   [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < c.tokens.size())
    c.tokens.resize(static_cast<std::size_t>(options.top_k));
  double total = 0;
  for (const std::int32_t t : c.tokens) {
    c.probabilities.push_back(std::exp((logit(t) - logit(c.tokens.front())) / options.temperature));
    total += c.probabilities.back();
  }
  // The smallest set of most likely tokens that reaches top_p.
  double sum = 0;
  std::size_t kept = 0;
  while (kept < c.tokens.size() && sum < options.top_p * total) sum += c.probabilities[kept++];
  c.tokens.resize(std::max<std::size_t>(1, kept));
  c.probabilities.resize(c.tokens.size());
  return c;
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits, const GenerateOptions& options,
                          std::uint32_t word) {
  if (options.greedy || options.temperature <= 0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());
  const Candidates c = candidates_of(logits, options);
  double left = uniform_from_word(word) *
                std::accumulate(c.probabilities.begin(), c.probabilities.end(), 0.0);
  for (std::size_t i = 0; i + 1 < c.tokens.size(); ++i) {
    left -= c.probabilities[i];
    if (left < 0) return c.tokens[i];
  }
  return c.tokens.back();
}

Generator::Generator(Session& session, const GenerateOptions& options, std::uint64_t seed,
                     std::int64_t vocab)
    : session_(session), options_(options), seed_(seed) {
  const ModelOptions& model = session.options().model;
  logits_ = session.memory().allocate(MemoryUse::data, model.dtype, {1, model.vocab_size});
  float_logits_ = session.memory().allocate(MemoryUse::data, DType::f32, {1, vocab});
  check(vocab >= 1 && vocab <= model.vocab_size, "{} tokens to draw from, the model has {}", vocab,
        model.vocab_size);
  host_logits_.resize(static_cast<std::size_t>(vocab));
}

void Generator::make_cache(std::int64_t capacity) {
  const ModelOptions& model = session_.options().model;
  cache_ = {};
  cache_memory_.clear();
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const auto make = [&] {
      cache_memory_.push_back(
          session_.memory().allocate(MemoryUse::activations, model.dtype,
                                     {capacity, 1, model.num_query_groups, model.kv_channels}));
      return cache_memory_.back().view();
    };
    const View k = make();
    cache_.layers.push_back({k, make()});
  }
}

void Generator::feed(StageRunner& runner, DeviceBatches& batches,
                     std::span<const std::int32_t> tokens, std::int64_t start) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  HostBatch host{1, n, {tokens.begin(), tokens.end()}, {}, {}, {}, {0}};
  host.labels = host.tokens;
  host.loss_mask.assign(tokens.size(), 0.0f);
  for (std::int64_t i = 0; i < n; ++i)
    host.positions.push_back(static_cast<std::int32_t>(start + i));
  Context& context = session_.context();
  batches.set(0, host);
  batches.send(context.stream, LossAverage::per_token);
  Microbatch batch = batches.microbatches().front();
  batch.training = false;
  batch.cache = &cache_;
  batch.position_start = start;
  runner.trailing_logits(batch, logits_);
  // Sampling is on the host, in float.
  const View floats = float_logits_.view();
  context.kernels.copy(context.stream, floats, logits_.view().slice(1, 0, floats.dim(1)));
  context.stream.api().copy_bytes(context.stream.native(), host_logits_.data(), floats.raw(),
                                  floats.bytes());
  context.stream.synchronize();
  check(std::ranges::none_of(host_logits_, [](float x) { return std::isnan(x); }),
        "the model gives NaN: its weights are damaged, or {} is too narrow for it",
        name_of(session_.options().model.dtype));
}

void Generator::check_prompt(std::span<const std::int32_t> prompt) const {
  check_input(!prompt.empty(), "the prompt has no tokens: give at least one");
  const std::int64_t positions = session_.options().model.max_position_embeddings;
  check_input(static_cast<std::int64_t>(prompt.size()) + options_.max_new_tokens <= positions,
              "a prompt of {} tokens and --max-new-tokens {} exceed the model's {} positions: "
              "shorten one of them",
              prompt.size(), options_.max_new_tokens, positions);
}

std::vector<std::int32_t> Generator::run(std::span<const std::int32_t> prompt, std::int32_t stop,
                                         const std::function<void(std::int32_t)>& emit) {
  check_prompt(prompt);
  const auto length = static_cast<std::int64_t>(prompt.size());
  make_cache(length + options_.max_new_tokens);
  const auto runner_for = [&](std::int64_t seq) {
    RunnerOptions options;
    options.shape = {seq, 1};
    options.training = false;
    return StageRunner(session_.model(), session_.context(), session_.memory(), options);
  };
  StageRunner prefill = runner_for(length);
  DeviceBatches prefill_batch(session_.memory(), {length, 1}, 1, batch_limits(session_.options()));
  feed(prefill, prefill_batch, prompt, 0);

  StageRunner decode = runner_for(1);
  DeviceBatches decode_batch(session_.memory(), {1, 1}, 1, batch_limits(session_.options()));
  const RngKey key = rng_key(seed_, RngPurpose::sampling, std::to_string(prompts_++));
  std::vector<std::int32_t> generated;
  for (std::int64_t i = 0; i < options_.max_new_tokens; ++i) {
    const std::int32_t token =
        sample_token(host_logits_, options_, philox_word(key, static_cast<std::uint64_t>(i)));
    if (token == stop) break;
    generated.push_back(token);
    emit(token);
    if (i + 1 < options_.max_new_tokens)
      feed(decode, decode_batch, {&generated.back(), 1}, length + i);
  }
  return generated;
}

}  // namespace tessera
