// What a model is: flags of ModelOptions for sizes, positions and initialization.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

bool uses_rope(const Settings& s) {
  return s.options.model.position_embedding == PositionEmbedding::rope;
}

constexpr std::string_view kWithoutLatent =
    "attention without --multi-latent-attention, which has --qk-head-dim, --qk-pos-emb-head-dim "
    "and "
    "--v-head-dim";
bool has_equal_heads(const Settings& s) { return !s.options.model.multi_latent_attention; }

bool has_window(const Settings& s) { return s.options.model.attention_window != 0; }

std::function<bool(const Settings&)> scaled_by(std::initializer_list<RopeScaling> kinds) {
  return [kinds = std::vector<RopeScaling>(kinds)](const Settings& s) {
    bool found = false;
    for (const RopeScaling kind : kinds) found |= s.options.model.rope.scaling == kind;
    return found && uses_rope(s);
  };
}

bool has_fewer_groups(const Settings& s) {
  const ModelOptions& model = s.options.model;
  return model.num_query_groups != 0 && model.num_query_groups != model.num_attention_heads;
}

std::vector<Flag> size_flags() {
  return {
      integer("num-layers", at(&ModelOptions::num_layers), {1, kMaxLayers}, "transformer layers")
          .must_be_given(),
      integer("hidden-size", at(&ModelOptions::hidden_size), {1, kMaxHidden}, "width of the model")
          .must_be_given(),
      integer("ffn-hidden-size", at(&ModelOptions::ffn_hidden_size), {1, kMaxFfn},
              "inner width of the MLP [default: 4 x hidden; 8/3 x hidden for a gated MLP, rounded "
              "down to a multiple of 64]"),
      integer("num-attention-heads", at(&ModelOptions::num_attention_heads), {1, kMaxHeads},
              "query heads")
          .must_be_given(),
      action(
          "group-query-attention",
          [](Settings& s, bool on) { s.options.model.num_query_groups = on ? 1 : 0; },
          has_fewer_groups, "use grouped-query attention, with --num-query-groups key/value heads"),
      integer("num-query-groups", at(&ModelOptions::num_query_groups), {1, kMaxHeads},
              "key/value heads, with --group-query-attention [default: 1]")
          .only_with("group-query-attention",
                     "--group-query-attention, without which every head has its own keys and "
                     "values")
          .shown_if(has_fewer_groups),
      integer("kv-channels", at(&ModelOptions::kv_channels), {1, kMaxHeadSize},
              "size of a head [default: hidden / heads]")
          .only_if(has_equal_heads, kWithoutLatent),
      integer("max-position-embeddings", at(&ModelOptions::max_position_embeddings),
              {1, kMaxPositions}, "maximum sequence length of the model [default: --seq-length]"),
      integer("padded-vocab-size", at(&ModelOptions::vocab_size), {1, kMaxVocabulary},
              "rows of the embedding [default: the tokenizer's vocabulary, never padded]"),
  };
}

std::vector<Flag> position_flags() {
  return {
      word("position-embedding-type", at(&ModelOptions::position_embedding),
           "how the model encodes positions"),
      action(
          "no-position-embedding", [](Settings&, bool) {}, [](const Settings&) { return false; },
          "no table of positions, which models with --position-embedding-type rope never have")
          .only_for({Command::train})
          .never_shown(),
      real("rotary-base", at(&RopeOptions::base), {1, 1e12, true}, "RoPE's base (theta)")
          .only_if(uses_rope, "--position-embedding-type rope"),
      real("rotary-percent", at(&RopeOptions::percent), {0, 1, true},
           "leading part of each head that RoPE rotates")
          .only_if(uses_rope, "--position-embedding-type rope"),
      toggle("rotary-interleaved", at(&ModelOptions::rotary_interleaved),
             "RoPE rotates neighbouring channels (0 with 1, 2 with 3, ...), not those half a head "
             "apart")
          .only_if([](const Settings& s) { return uses_rope(s) && has_equal_heads(s); },
                   "--position-embedding-type rope without --multi-latent-attention, which always "
                   "rotates neighbouring channels"),
      integer("no-rope-freq", at(&ModelOptions::no_rope_freq), {2, kMaxLayers},
              "every N-th layer has no RoPE [default: none]")
          .only_if(uses_rope, "--position-embedding-type rope"),
      real("rope-local-base", at(&ModelOptions::rope_local_base), {1, 1e12, true},
           "RoPE's base in layers with an attention window, without scaling [default: as in all "
           "layers]")
          .only_if([](const Settings& s) { return uses_rope(s) && has_window(s); },
                   "--position-embedding-type rope with --window-size"),
      word("rope-scaling-type", at(&RopeOptions::scaling),
           "how RoPE is scaled to longer sequences than the model was first trained for")
          .one_of("rope scaling")
          .only_if(uses_rope, "--position-embedding-type rope"),
      action(
          "use-rope-scaling",
          [](Settings& s, bool on) {
            if (on) s.options.model.rope.scaling = RopeScaling::llama3;
          },
          scaled_by({RopeScaling::llama3}), "the same as --rope-scaling-type llama3")
          .one_of("rope scaling")
          .only_if(uses_rope, "--position-embedding-type rope")
          .never_shown(),
  };
}

// Megatron's latent attention is scaled by yarn unless another kind is named, from 4096 positions.
Flag rotary_scaling_flag() {
  Flag flag = make_flag("rotary-scaling-factor", Arity::one, "X",
                        "the same as --rope-scaling-type yarn with --rope-scaling-factor X and "
                        "--rope-original-max-position 4096");
  flag.set = [](Settings& s, const Values& values) {
    RopeOptions& rope = s.options.model.rope;
    if (rope.scaling == RopeScaling::none) rope.scaling = RopeScaling::yarn;
    if (rope.scaling == RopeScaling::yarn) rope.original_max_position = 4096;
    rope.factor = parse_real(values.at(0), {1, 1e6});
  };
  return std::move(flag)
      .one_of("rope scaling factor")
      .only_if(
          [](const Settings& s) {
            return s.options.model.multi_latent_attention &&
                   s.options.model.rope.scaling == RopeScaling::yarn;
          },
          "--multi-latent-attention with --rope-scaling-type yarn");
}

std::vector<Flag> rope_scaling_flags() {
  constexpr RealRange kFactor = {1, 1e6};
  constexpr RealRange kPositive = {0, 1e6, true};
  const auto any = scaled_by({RopeScaling::linear, RopeScaling::llama3, RopeScaling::yarn});
  const auto llama3 = scaled_by({RopeScaling::llama3});
  const auto yarn = scaled_by({RopeScaling::yarn});
  const auto long_context = scaled_by({RopeScaling::llama3, RopeScaling::yarn});
  return {
      real("rope-scaling-factor", at(&RopeOptions::factor), kFactor, "how many times longer")
          .one_of("rope scaling factor")
          .only_if(any, "RoPE scaling (--rope-scaling-type linear, llama3 or yarn)"),
      rotary_scaling_flag(),
      real("rope-low-freq-factor", at(&RopeOptions::low_freq_factor), kPositive,
           "llama3: wavelengths above original length / this are scaled")
          .only_if(llama3, "--rope-scaling-type llama3"),
      real("rope-high-freq-factor", at(&RopeOptions::high_freq_factor), kPositive,
           "llama3: wavelengths below original length / this are kept")
          .only_if(llama3, "--rope-scaling-type llama3"),
      integer("rope-original-max-position", at(&RopeOptions::original_max_position),
              {1, kMaxPositions}, "llama3, yarn: the length the model was first trained for")
          .only_if(long_context, "--rope-scaling-type llama3 or yarn"),
      real("rope-beta-fast", at(&RopeOptions::beta_fast), kPositive,
           "yarn: dimensions with more turns than this are kept")
          .only_if(yarn, "--rope-scaling-type yarn"),
      real("rope-beta-slow", at(&RopeOptions::beta_slow), kPositive,
           "yarn: dimensions with fewer turns than this are scaled")
          .only_if(yarn, "--rope-scaling-type yarn"),
      action(
          "no-rope-yarn-rounding",
          [](Settings& s, bool on) { s.options.model.rope.truncate = !on; },
          [](const Settings& s) { return !s.options.model.rope.truncate; },
          "yarn: the bounds between dimensions that are kept and scaled lie between dimensions, "
          "too")
          .only_if(yarn, "--rope-scaling-type yarn"),
      real("rope-attention-factor", at(&RopeOptions::attention_factor), kPositive,
           "yarn: factor on queries and keys [default: 0.1 ln(scaling factor) + 1]")
          .only_if(yarn, "--rope-scaling-type yarn"),
  };
}

bool predicts_further(const Settings& s) { return s.options.model.mtp_num_layers > 0; }

std::vector<Flag> mtp_flags() {
  return {
      integer("mtp-num-layers", at(&ModelOptions::mtp_num_layers), {0, kMaxMtpLayers},
              "multi-token prediction: N further layers, each of which predicts one more token "
              "ahead in training (DeepSeek-V3)")
          .shown_if(predicts_further),
  };
}

std::vector<Flag> initialization_flags() {
  constexpr RealRange kProbability = {0, 1, false, true};
  return {
      real("attention-dropout", at(&ModelOptions::attention_dropout), kProbability,
           "dropout of attention weights"),
      real("hidden-dropout", at(&ModelOptions::hidden_dropout), kProbability,
           "dropout of embeddings and of each branch before it joins the residual"),
      real("label-smoothing", at(&ModelOptions::label_smoothing), kProbability,
           "part of each token's target that is spread evenly over the vocabulary, in training"),
      real("mtp-loss-scaling-factor", at(&ModelOptions::mtp_loss_scaling_factor), {0, 1e3, true},
           "weight in the loss of the mean of multi-token prediction's losses")
          .only_if(predicts_further, "--mtp-num-layers"),
      real("init-method-std", at(&ModelOptions::init_std), {0, 10, true},
           "standard deviation of initial weights"),
  };
}

}  // namespace

void append_model_flags(std::vector<Flag>& table) {
  append(table, Group::model, kModelCommands, size_flags());
  append(table, Group::model, kModelCommands, position_flags());
  append(table, Group::model, kModelCommands, rope_scaling_flags());
  append_layer_flags(table);
  append_expert_flags(table);
  append(table, Group::model, kModelCommands, mtp_flags());
  append(table, Group::initialization, {Command::train}, initialization_flags());
}

}  // namespace tessera::config
