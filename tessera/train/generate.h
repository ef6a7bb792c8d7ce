// Text from a model: one prompt at a time, with keys and values cached.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tessera/config/command_options.h"
#include "tessera/train/session.h"

namespace tessera {

/// Draws one token from logits. Pure: the same logits, options and word give the same token.
std::int32_t sample_token(std::span<const float> logits, const GenerateOptions& options,
                          std::uint32_t word);

class Generator {
 public:
  /// The session must be for inference, with shape {longest prompt, 1}. Only the first `vocab`
  /// tokens are drawn: a model may have more rows than its tokenizer has tokens.
  Generator(Session& session, const GenerateOptions& options, std::uint64_t seed,
            std::int64_t vocab);

  /// InputError when the model has no positions for the prompt and what may follow it.
  void check_prompt(std::span<const std::int32_t> prompt) const;
  /// Continues `prompt` until `stop` is drawn or max_new_tokens are there; calls `emit` with each
  /// new token.
  std::vector<std::int32_t> run(std::span<const std::int32_t> prompt, std::int32_t stop,
                                const std::function<void(std::int32_t)>& emit);

 private:
  void make_cache(std::int64_t capacity);
  /// Runs tokens at positions from `start` on and leaves the logits of the last one in logits_.
  void feed(StageRunner& runner, DeviceBatches& batch, std::span<const std::int32_t> tokens,
            std::int64_t start);

  Session& session_;
  GenerateOptions options_;
  std::uint64_t seed_;
  std::int64_t prompts_ = 0;  ///< so far: each has its own random stream
  std::vector<Tensor> cache_memory_;
  KvCache cache_;
  Tensor logits_;
  Tensor float_logits_;
  std::vector<float> host_logits_;
};

}  // namespace tessera
