#include "tessera/infer/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kDefaultNewTokens = 128;

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

std::int64_t most_new_tokens(std::span<const std::int32_t> prompt, const GenerateOptions& options,
                             const ModelOptions& model) {
  check_input(!prompt.empty(), "the prompt has no tokens: give at least one");
  const std::int64_t positions = model.max_position_embeddings;
  const std::int64_t room = positions - static_cast<std::int64_t>(prompt.size());
  if (options.max_new_tokens == 0) {
    check_input(room > 0,
                "a prompt of {} tokens leaves none of the model's {} positions for more: shorten "
                "it",
                prompt.size(), positions);
    return std::min(kDefaultNewTokens, room);
  }
  check_input(options.max_new_tokens <= room,
              "a prompt of {} tokens and --max-new-tokens {} exceed the model's {} positions: "
              "shorten one of them",
              prompt.size(), options.max_new_tokens, positions);
  return options.max_new_tokens;
}

Generator::Generator(Session& session, const GenerateOptions& options, std::uint64_t seed,
                     std::int64_t vocab)
    : session_(session), options_(options), seed_(seed) {
  const ModelOptions& model = session.options().model;
  const Communicator& tensor = session.context().mesh.tensor();
  check(session.options().parallel.tensor_2d == 0 && !session.options().parallel.sequence_parallel,
        "text is generated without 2-D tensor parallelism and without sequence parallelism");
  const std::int64_t largest = balanced_range(model.vocab_size, tensor.size(), 0).length();
  logits_ = session.memory().allocate(MemoryUse::data, model.dtype, {1, largest});
  all_logits_ =
      session.memory().allocate(MemoryUse::data, model.dtype, {tensor.size(), 1, largest});
  float_logits_ = session.memory().allocate(MemoryUse::data, DType::f32, {1, vocab});
  check(vocab >= 1 && vocab <= model.vocab_size, "{} tokens to draw from, the model has {}", vocab,
        model.vocab_size);
  host_logits_.resize(static_cast<std::size_t>(vocab));
}

// Keys and values of this rank's layers and heads.
void Generator::make_cache(std::int64_t capacity) {
  cache_.layers.assign(static_cast<std::size_t>(session_.options().model.num_layers), {});
  const auto plan = [&](ArenaLayout memory) {
    for (const GptModel& chunk : session_.chunks()) {
      auto layer = cache_.layers.begin() + chunk.part().layers.begin;
      for (const Block& block : chunk.blocks) *layer++ = block.plan_cache(memory, {capacity, 1});
    }
    return static_cast<std::int64_t>(memory.bytes());
  };
  cache_memory_ = {};  // of the last prompt
  cache_memory_ = session_.memory().allocate(MemoryUse::activations, DType::u8, {plan({})});
  plan(ArenaLayout(cache_memory_.view()));
}

Generator::Runners Generator::runners_for(std::int64_t seq) {
  RunnerOptions options;
  options.shape = {seq, 1};
  options.training = false;
  Runners runners;
  runners.stages = Session::make_runners(session_.chunks(), session_.context(), options);
  runners.memory = std::make_unique<RunnerMemory>(
      Session::memory_for(runners.stages, session_.memory(), options));
  for (StageRunner& stage : runners.stages) stage.bind_memory(*runners.memory);
  DeviceBatches::Limits limits = batch_limits(session_.options());
  limits.documents = false;  // a text is one
  runners.batch = std::make_unique<DeviceBatches>(session_.memory(), options.shape, 1, limits);
  const ModelOptions& model = session_.options().model;
  runners.boundary =
      session_.memory().allocate(MemoryUse::activations, model.dtype, {seq, model.hidden_size});
  return runners;
}

// One after the other: a single sequence keeps one stage busy at a time.
void Generator::run_stages(Runners& runners, const Microbatch& batch) {
  Stream& stream = session_.context().stream;
  const PipelineShape& shape = session_.pipeline_shape();
  const View boundary = runners.boundary.view();
  for (int stage = 0; stage < shape.stages(); ++stage) {
    const StagePlace place = place_of(shape, stage);
    if (place.rank != session_.channels().rank()) continue;
    const auto chunk = static_cast<std::size_t>(place.chunk);
    const int before = stage > 0 ? place_of(shape, stage - 1).rank : place.rank;
    if (before != place.rank) session_.channels().recv(boundary, before, stream)->wait(stream);
    StageRunner& runner = runners.stages[chunk];
    if (session_.chunks()[chunk].head) {
      const std::int64_t own = balanced_range(session_.options().model.vocab_size,
                                              session_.context().mesh.tensor().size(),
                                              session_.context().mesh.tensor().rank())
                                   .length();
      runner.forward_logits(batch, View(logits_.view().raw(), logits_.view().dtype(), {1, own}),
                            boundary);
      continue;
    }
    runner.forward_hidden(batch, boundary, boundary);
    const int next = place_of(shape, stage + 1).rank;
    if (next != place.rank) session_.channels().send(boundary, next, stream)->wait(stream);
  }
}

// From the ranks of the last stage, which have a share of the vocabulary each, to all.
void Generator::share_logits() {
  Context& context = session_.context();
  const PipelineShape& shape = session_.pipeline_shape();
  const View all = all_logits_.view();
  context.mesh.tensor().all_gather(all, logits_.view(), context.stream)->wait(context.stream);
  context.mesh.pipeline()
      .broadcast(all, place_of(shape, shape.stages() - 1).rank, context.stream)
      ->wait(context.stream);
  const View floats = float_logits_.view();
  const int shares = static_cast<int>(all.dim(0));
  for (int r = 0; r < shares; ++r) {
    const Range range = balanced_range(session_.options().model.vocab_size, shares, r);
    const std::int64_t end = std::min(range.end, floats.dim(1));
    if (end <= range.begin) break;
    context.kernels.copy(
        context.stream, floats.slice(1, range.begin, end - range.begin),
        all.slice(0, r, 1).reshape({1, all.dim(2)}).slice(1, 0, end - range.begin));
  }
  context.stream.api().copy_bytes(context.stream.native(), host_logits_.data(), floats.raw(),
                                  floats.bytes());
  context.stream.synchronize();
}

void Generator::feed(Runners& runners, std::span<const std::int32_t> tokens, std::int64_t start) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  HostBatch host{1, n, {tokens.begin(), tokens.end()}, {}, {}, {}, {0}};
  host.labels = host.tokens;
  host.loss_mask.assign(tokens.size(), 0.0f);
  for (std::int64_t i = 0; i < n; ++i)
    host.positions.push_back(static_cast<std::int32_t>(start + i));
  runners.batch->set(0, host);
  runners.batch->send(session_.context().stream, LossAverage::per_token);
  Microbatch batch = runners.batch->microbatches().front();
  batch.training = false;
  batch.cache = &cache_;
  batch.ranges = start;
  run_stages(runners, batch);
  share_logits();  // sampling is on the host, in float
  check(std::ranges::none_of(host_logits_, [](float x) { return std::isnan(x); }),
        "the model gives NaN: its weights are damaged, or {} is too narrow for it",
        to_string(session_.options().model.dtype));
}

std::vector<std::int32_t> Generator::run(std::span<const std::int32_t> prompt,
                                         std::span<const std::int32_t> stops,
                                         const std::function<void(std::int32_t)>& emit) {
  const std::int64_t most = most_new_tokens(prompt, options_, session_.options().model);
  const auto length = static_cast<std::int64_t>(prompt.size());
  make_cache(length + most);
  Runners prefill = runners_for(length);
  feed(prefill, prompt, 0);
  Runners decode = runners_for(1);
  const RngKey key = rng_key(seed_, RngPurpose::sampling, std::to_string(prompts_++));
  std::vector<std::int32_t> generated;
  for (std::int64_t i = 0; i < most; ++i) {
    const std::int32_t token =
        sample_token(host_logits_, options_, philox_word(key, static_cast<std::uint64_t>(i)));
    if (std::ranges::find(stops, token) != stops.end()) break;
    generated.push_back(token);
    emit(token);
    if (i + 1 < most) feed(decode, {&generated.back(), 1}, length + i);
  }
  return generated;
}

}  // namespace tessera
