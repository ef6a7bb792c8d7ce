#include "tessera/config/resolve.h"

#include "tessera/config/limits.h"

namespace tessera {
namespace {

// Megatron's default: 4 h, or for a gated MLP two thirds of it in steps of 64.
std::int64_t default_ffn(const ModelOptions& model) {
  const std::int64_t h = model.hidden_size;
  if (h <= 0 || h > config::kMaxHidden) return 0;
  return model.activation == Activation::swiglu ? 8 * h / 3 / 64 * 64 : 4 * h;
}

void fill(std::int64_t& value, std::int64_t derived) {
  if (value == 0) value = derived;
}

void resolve_length(TrainOptions& train, const ParallelOptions& parallel) {
  if (train.micro_batch_size > 0 && train.micro_batch_size <= config::kMaxMicroBatch)
    fill(train.global_batch_size, train.micro_batch_size * parallel.data);
  if (train.train_samples > 0 && train.global_batch_size > 0)
    train.train_iters = train.train_samples / train.global_batch_size;
}

}  // namespace

void resolve_model(ModelOptions& model) {
  fill(model.ffn_hidden_size, default_ffn(model));
  fill(model.num_query_groups, model.num_attention_heads);
  const bool splits =
      model.num_attention_heads > 0 && model.hidden_size % model.num_attention_heads == 0;
  if (splits) fill(model.kv_channels, model.hidden_size / model.num_attention_heads);
}

std::int64_t tokenizer_vocabulary(const DataOptions& data) {
  if (data.tokenizer == TokenizerKind::bytes) return kByteVocabulary;
  return data.vocab_size > 0 && data.vocab_size < config::kMaxVocabulary ? data.vocab_size + 1 : 0;
}

void resolve(Options& options) {
  DataOptions& data = options.data;
  const bool more_than_bytes = data.tokenizer == TokenizerKind::bytes && data.vocab_size > 0;
  fill(options.model.vocab_size, more_than_bytes ? data.vocab_size : tokenizer_vocabulary(data));
  fill(options.model.max_position_embeddings, data.seq_length);
  resolve_model(options.model);
  resolve_length(options.train, options.parallel);
  fill(options.schedule.decay_iters, options.train.train_iters);
  data.seed = options.train.seed;
  if (data.mock_data) data.split = "1,1,1";
}

}  // namespace tessera
