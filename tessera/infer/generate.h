// Text from a model: one prompt at a time, with keys and values cached.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/engine/session.h"
#include "tessera/options/command_options.h"

namespace tessera {

/// Draws one token from logits. Pure: the same logits, options and word give the same token.
std::int32_t sample_token(std::span<const float> logits, const GenerateOptions& options,
                          std::uint32_t word);

/// How many tokens may follow a prompt. InputError when the model has no positions for them.
std::int64_t most_new_tokens(std::span<const std::int32_t> prompt, const GenerateOptions& options,
                             const ModelOptions& model);

class Generator {
 public:
  /// The session must be for inference, with shape {longest prompt, 1}. Only the first `vocab`
  /// tokens are drawn: a model may have more rows than its tokenizer has tokens.
  Generator(Session& session, const GenerateOptions& options, std::uint64_t seed,
            std::int64_t vocab);

  /// All ranks call it together, and all get the same. Continues `prompt` until one of
  /// `stops` is drawn or most_new_tokens() are there; calls `emit` with each new token.
  std::vector<std::int32_t> run(std::span<const std::int32_t> prompt,
                                std::span<const std::int32_t> stops,
                                const std::function<void(std::int32_t)>& emit);

 private:
  // The stages of this rank, for sequences of one length.
  struct Runners {
    std::deque<StageRunner> stages;
    std::unique_ptr<RunnerMemory> memory;
    std::unique_ptr<DeviceBatches> batch;
    Tensor boundary;  ///< what comes from the stage before, and goes to the next
  };

  void make_cache(std::int64_t capacity);
  Runners runners_for(std::int64_t seq);
  /// Runs tokens at positions from `start` on; all ranks know the logits of the last one
  /// afterwards.
  void feed(Runners& runners, std::span<const std::int32_t> tokens, std::int64_t start);
  void run_stages(Runners& runners, const Microbatch& batch);
  void share_logits();

  Session& session_;
  GenerateOptions options_;
  std::uint64_t seed_;
  std::int64_t prompts_ = 0;  ///< so far: each has its own random stream
  Tensor cache_memory_;
  KvCache cache_;      ///< of this rank's layers; those of others are empty
  Tensor logits_;      ///< [1, V of this rank]
  Tensor all_logits_;  ///< [ranks, 1, the largest share of V]
  Tensor float_logits_;
  std::vector<float> host_logits_;
};

}  // namespace tessera
