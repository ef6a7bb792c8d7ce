#include "tessera/run/model_source.h"

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/saving/checkpointing.h"
#include "tessera/checkpoint/saving/hf_weights.h"
#include "tessera/checkpoint/saving/tokenizer_copy.h"
#include "tessera/config/resolve.h"
#include "tessera/config/rules/given_rules.h"
#include "tessera/config/rules/validate.h"
#include "tessera/data/datasets/fim.h"
#include "tessera/tokenizer/tokenizer.h"
#include "tessera/train/resume.h"

namespace tessera {

namespace {

// Other data takes the place of what the run was trained and validated on.
void forget_sources(DataOptions& data) {
  data.data_path.clear();
  data.train_data_path.clear();
  data.valid_data_path.clear();
  data.test_data_path.clear();
  data.data_args_path.clear();
  data.per_split_data_args_path.clear();
  data.mock_data = false;
}

// Whether the tokenizer has the tokens that mark what is to be filled in.
void check_fim(const ParsedCommand& parsed) {
  const DataOptions& data = parsed.options.data;
  const bool reads = parsed.command == Command::train ||
                     (parsed.command == Command::evaluate && parsed.evaluate.tokens.empty());
  if (data.fim.enabled && reads) fim_tokens(data.fim, *make_tokenizer(data.tokenizer));
}

// A tokenizer that cannot be read is one problem among others.
void read_tokenizer_size(ParsedCommand& parsed) {
  TokenizerOptions& tokenizer = parsed.options.data.tokenizer;
  if (!tokenizer.has_files()) return;
  try {
    read_vocabulary(tokenizer);
  } catch (const InputError& error) {
    parsed.problems.add_for("vocab-size", "{}", error.what());
    constexpr std::int64_t kLikely = 1 << 16;  // so that no rule is violated by the missing size
    if (tokenizer.vocab_size == 0) tokenizer.vocab_size = kLikely;
  }
}

void use_own_tokenizer(const HfFolder& folder, TokenizerOptions& tokenizer) {
  const std::int64_t asked = tokenizer.vocab_size;
  if (const auto own = tokenizer_of(folder))
    tokenizer = *own;
  else if (folder.model().options.vocab_size != kByteVocabulary)
    log_warning(
        "'{}' has no tokenizer.json or tokenizer.model that can be used: texts are bytes, unless "
        "--tokenizer-type says otherwise",
        folder.path().string());
  tokenizer.vocab_size = asked;
}

// What a model of Hugging Face does not decide.
void take_training_options(const ParsedCommand& parsed, ModelOptions& model) {
  const ModelOptions& asked = parsed.options.model;
  model.dtype = asked.dtype;
  if (parsed.was_given("hidden-dropout")) model.hidden_dropout = asked.hidden_dropout;
  if (parsed.was_given("attention-dropout")) model.attention_dropout = asked.attention_dropout;
  model.label_smoothing = asked.label_smoothing;
  model.moe_bias_update_rate = asked.moe_bias_update_rate;
  model.moe_balance = asked.moe_balance;
  model.moe_aux_loss_coeff = asked.moe_aux_loss_coeff;
  model.moe_z_loss = asked.moe_z_loss;
  model.moe_input_jitter = asked.moe_input_jitter;
  model.moe_force_balance = asked.moe_force_balance;
  model.moe_capacity_factor = asked.moe_capacity_factor;
  model.moe_drop_policy = asked.moe_drop_policy;
  model.mtp_loss_scaling_factor = asked.mtp_loss_scaling_factor;
  model.moe_pad_to_capacity = asked.moe_pad_to_capacity;
}

// The dense model with the experts of another.
ModelOptions upcycled(ModelOptions dense, const ModelOptions& experts, const std::string& from) {
  check_input(dense.num_experts == 0,
              "{}: --moe-use-upcycling makes experts of the MLPs of a dense model, and this one "
              "has experts: drop the flag",
              from);
  dense.num_experts = experts.num_experts;
  dense.moe_layer_freq = experts.moe_layer_freq;
  dense.moe_ffn_hidden_size = experts.moe_ffn_hidden_size;
  dense.moe_router_topk = experts.moe_router_topk;
  dense.moe_router_score = experts.moe_router_score;
  dense.moe_router_pre_softmax = experts.moe_router_pre_softmax;
  dense.moe_router_scaling_factor = experts.moe_router_scaling_factor;
  dense.moe_router_num_groups = experts.moe_router_num_groups;
  dense.moe_router_group_topk = experts.moe_router_group_topk;
  dense.moe_router_group_best = experts.moe_router_group_best;
  dense.moe_expert_bias = experts.moe_expert_bias;
  dense.moe_shared_ffn = experts.moe_shared_ffn;
  dense.moe_shared_gate = experts.moe_shared_gate;
  return dense;
}

// What --use-checkpoint-args and --use-checkpoint-opt-param-scheduler take from a checkpoint.
void take_from_checkpoint(ParsedCommand& parsed) {
  Options& options = parsed.options;
  const TrainOptions& train = options.train;
  if (!train.use_checkpoint_args && !train.use_checkpoint_scheduler) return;
  const std::optional<Checkpoint> checkpoint = checkpoint_of(train, false);
  if (!checkpoint) {
    parsed.notes.warnings.push_back(fmt::format(
        "--load {}: there is no checkpoint to take the model or the schedule from: those of the "
        "flags are used",
        train.load));
    return;
  }
  const Options saved =
      options_from_yaml(checkpoint->config(), (checkpoint->path() / kConfigFile).string());
  if (train.use_checkpoint_args) {
    ModelOptions model = saved.model;
    if (train.upcycle) model = upcycled(model, options.model, "--load " + train.load);
    take_training_options(parsed, model);
    if (!parsed.was_given("params-dtype") && !parsed.was_given("bf16") && !parsed.was_given("fp16"))
      model.dtype = saved.model.dtype;
    options.model = model;
    config::warn_for_model(parsed.given, parsed, parsed.notes);
    if (!config::names_tokenizer(parsed.given)) options.data.tokenizer = saved.data.tokenizer;
  }
  if (train.use_checkpoint_scheduler) {
    options.schedule = saved.schedule;
    options.optimizer.weight_decay = saved.optimizer.weight_decay;
    options.optimizer.decoupled_lr = saved.optimizer.decoupled_lr;
    options.optimizer.decoupled_min_lr = saved.optimizer.decoupled_min_lr;
  }
}

}  // namespace

ModelSource::ModelSource(ParsedCommand& parsed, std::optional<int> ranks) {
  Options& options = parsed.options;
  if (parsed.command == Command::train) take_from_checkpoint(parsed);
  // train --load resumes a run that its own flags describe; the other commands take the run from
  // the checkpoint.
  if (!options.train.load.empty() && parsed.command != Command::train) {
    checkpoint_ = Checkpoint::open(options.train.load, wanted_iteration(options.train));
    const std::string file = (checkpoint_->path() / kConfigFile).string();
    const Options saved = options_from_yaml(checkpoint_->config(), file);
    check_model_matches(parsed, saved.model, file);
    Options merged = options;
    merged.model = saved.model;
    merged.data = saved.data;
    use_carried_tokenizer(*checkpoint_, merged.data.tokenizer);
    // Evaluation reads all of its data unless --split says otherwise, whatever training read.
    merged.data.split = options.data.split;
    if (parsed.was_given("data-path") || parsed.was_given("data-args-path") ||
        parsed.was_given("mock-data"))
      forget_sources(merged.data);
    apply_given(parsed, merged);
    const DType dtype = merged.model.dtype;  // the one thing that may differ: weights are converted
    merged.model = saved.model;
    merged.model.dtype = dtype;
    options = merged;
  } else if (!options.train.load_hf.empty() && parsed.problems.empty()) {
    folder_.emplace(options.train.load_hf);
    ModelOptions model = folder_->model().options;
    if (options.train.upcycle)
      model = upcycled(model, options.model, "--load-hf " + options.train.load_hf);
    // Rotations know no last position, so a model may be used on longer sequences than its file
    // says.
    if (model.position_embedding == PositionEmbedding::rope &&
        parsed.was_given("max-position-embeddings"))
      model.max_position_embeddings = options.model.max_position_embeddings;
    check_model_matches(parsed, model, options.train.load_hf);
    take_training_options(parsed, model);
    options.model = model;
    if (parsed.command == Command::train)
      config::warn_for_model(parsed.given, parsed, parsed.notes);
    if (!parsed.was_given("tokenizer-type")) use_own_tokenizer(*folder_, options.data.tokenizer);
  }
  read_tokenizer_size(parsed);
  resolve(options, ranks);
  validate(parsed, ranks);
  const bool has_model = parsed.command != Command::train;
  if (has_model) validate_model(options.model);
  check_fim(parsed);
}

void ModelSource::load(Session& session) const {
  if (checkpoint_) {
    Checkpoint own(checkpoint_->path());  // ranks may be threads, and a checkpoint keeps files open
    load_weights(session, own);
  }
  if (folder_) load_hf_weights(session, *folder_);
}

Rank only_rank(const TrainOptions& options) {
  return {0, 1, options.threads > 0 ? options.threads : default_threads(1),
          make_self_communicator()};
}

}  // namespace tessera
